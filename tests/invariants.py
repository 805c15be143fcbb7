"""What holds for every report, whatever the trace."""

from collections.abc import Iterator
from typing import Any

__all__ = ["broken"]


def broken(report: dict[str, Any]) -> Iterator[str]:
    """Yield each statement that does not hold for a report in its JSON form."""
    devices, total = report["devices"], report["total"]
    yield from _unless(len({d["id"] for d in devices}) == len(devices), "device ids are distinct")
    for device in devices:
        yield from _device(device["trace"], f"device {device['id']}")
    for way in ("h2d", "d2h", "both"):
        yield from _cover(total[way], f"total {way}")
        yield from _sum([d["trace"][way] for d in devices], total[way], f"total {way}")
    yield from _sum([d["trace"] for d in devices], total, "total")
    yield from _kernels(report["kernels"], total)
    for copy in report["worst_copies"]:
        parts, length_ns = copy["hidden_ns"] + copy["exposed_ns"], copy["end_ns"] - copy["start_ns"]
        yield from _unless(parts == length_ns, f"copy {copy['row_id']}: hidden + exposed = length")
    yield from _sentences(report)


def _unless(holds: bool, statement: str) -> Iterator[str]:
    if not holds:
        yield f"not so: {statement}"


def _device(trace: dict[str, Any], name: str) -> Iterator[str]:
    window_ns = trace["window_end_ns"] - trace["window_start_ns"]
    yield from _unless(trace["window_ns"] == window_ns >= 0, f"{name}: window = end - start")
    for key in ("compute_busy_ns", "collective_busy_ns", "other_busy_ns", "idle_ns"):
        yield from _unless(0 <= trace[key] <= window_ns, f"{name}: {key} <= window")
    h2d, d2h, both = trace["h2d"], trace["d2h"], trace["both"]
    for way, figures in (("h2d", h2d), ("d2h", d2h), ("both", both)):
        yield from _cover(figures, f"{name} {way}")
        yield from _unless(figures["busy_ns"] <= window_ns, f"{name} {way}: busy <= window")
    for way, figures in (("h2d", h2d), ("d2h", d2h)):
        yield from _direction(figures, f"{name} {way}")
    union_ns = h2d["busy_ns"] + d2h["busy_ns"] - both["concurrent_ns"]
    yield from _unless(both["busy_ns"] == union_ns, f"{name}: both = h2d + d2h - concurrent")


def _cover(figures: dict[str, Any], name: str) -> Iterator[str]:
    busy, hidden, exposed = (figures[f"{key}_ns"] for key in ("busy", "hidden", "exposed"))
    yield from _unless(hidden + exposed == busy, f"{name}: hidden + exposed = busy")
    for key in ("hidden_by_collectives_ns", "undetermined_ns"):
        yield from _unless(0 <= figures[key] <= exposed, f"{name}: {key} <= exposed")
    overlap, reason = figures["overlap"], figures["overlap_null_reason"]
    if overlap is None:
        yield from _unless(bool(reason), f"{name}: an unknown overlap has a reason")
    else:
        yield from _unless(reason is None, f"{name}: a known overlap has no reason")
        yield from _unless(overlap == hidden / busy <= 1, f"{name}: overlap = hidden / busy <= 1")


def _direction(figures: dict[str, Any], name: str) -> Iterator[str]:
    yield from _unless(figures["sum_ns"] >= figures["busy_ns"], f"{name}: sum >= busy")
    if figures["bytes"] is None:
        yield from _unless(figures["sizes"] == [], f"{name}: no sizes where bytes are unknown")
        return
    for key in ("copies", "bytes"):
        added = sum(size[key] for size in figures["sizes"])
        yield from _unless(added == figures[key], f"{name}: sizes add up to {key}")


def _sum(parts: list[dict[str, Any]], total: dict[str, Any], name: str) -> Iterator[str]:
    for key, value in total.items():
        if key.endswith("_ns") or key in ("copies", "kernels"):
            yield from _unless(
                value == sum(part[key] for part in parts), f"{name}: {key} is the sum"
            )


def _kernels(kernels: list[dict[str, Any]], total: dict[str, Any]) -> Iterator[str]:
    counted = sum(kernel["count"] for kernel in kernels if kernel["class"] != "other")
    yield from _unless(counted == total["kernels"], "kernels by name add up to all kernels")


def _sentences(report: dict[str, Any]) -> Iterator[str]:
    texts = [report["verdict"]["text"], *(w["message"] for w in report["trace"]["warnings"])]
    yield from _unless(len(set(texts)) == len(texts), "no warning is given twice")
    for text in texts:
        whole = text.endswith(".") and "\n" not in text
        yield from _unless(whole, f"a sentence on one line: {text[:300]!r}")
