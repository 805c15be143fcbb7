"""What the check found, as a short table for people."""

from collections.abc import Iterator, Mapping
from typing import Any

from nsysoffload.report.format import duration, size

__all__ = ["lines"]

_CLASS = "{:12} {:>12} {:>12} {:>8}"


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Write the lines."""
    versions = found["versions"]
    by = f"nsys {versions['nsys']}" if versions["nsys"] else found["recorder"] or "nothing"
    gpu = found["gpu"]
    yield f"{gpu['name']}, driver {gpu['driver'] or 'unknown'}, jax {versions['jax']}"
    if found["workload"]:
        model, *rest = found["workload"].items()
        yield f"{model[1]}, {', '.join(f'{key} {value}' for key, value in rest)}, recorded by {by}"
    for variant, run in found["runs"].items():
        yield _run(variant, run)
    if found["offload_over_remat"]:
        yield f"offload takes {found['offload_over_remat']:.3f} times as long as remat"
    yield f"numerics: {found['numerics']['text']}"
    yield from _link(found["link"])
    for variant, against in (found["prediction"]["runs"] or {}).items():
        yield from _against(variant, against)
    for stage in found["stages"]:
        if stage["failure"] or stage["skipped"]:
            yield f"{stage['stage']}: {stage['failure'] or stage['skipped']}"


def _run(variant: str, run: Mapping[str, Any]) -> str:
    ways = ", ".join(f"{way.upper()} {_way(run[way])}" for way in ("d2h", "h2d"))
    need = size(run["memory"]["device_need_bytes"])
    return f"{variant:8} step {duration(run['duration_ns'])}, {ways}, device memory {need}"


def _way(moved: Mapping[str, Any]) -> str:
    if not moved["copies"]:
        return "none"
    hidden = "unknown" if moved["overlap"] is None else f"{moved['overlap']:.0%} hidden"
    return f"{size(moved['bytes'])} {hidden}"


def _link(link: Mapping[str, Any]) -> Iterator[str]:
    for rate in (link["device_put"] or [])[-1:]:
        known = link["expected"]
        of = f" ({known['name']}, peak {known['peak_gbps']:g})" if known else ""
        yield (
            f"link: H2D {rate['h2d_gbps']:.1f} GB/s, D2H {rate['d2h_gbps']:.1f} GB/s, "
            f"{size(rate['bytes'])} at a time{of}"
        )


def _against(variant: str, against: Mapping[str, Any]) -> Iterator[str]:
    yield _CLASS.format(f"{variant}", "measured", "predicted", "ratio")
    classes = {"step": against["step"], **against["classes"]}
    for name, pair in classes.items():
        measured, predicted = pair["measured_ns"], pair["predicted_ns"]
        ratio = f"{measured / predicted:.2f}" if predicted else "-"
        yield _CLASS.format(f"  {name}", duration(measured), duration(predicted), ratio)
