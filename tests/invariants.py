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
        yield from _steps(device)
    for way in ("h2d", "d2h", "both"):
        yield from _cover(total[way], f"total {way}")
        yield from _sum([d["trace"][way] for d in devices], total[way], f"total {way}")
    yield from _sum([d["trace"] for d in devices], total, "total")
    yield from _kernels(report["kernels"], total)
    for copy in report["worst_copies"]:
        parts, length_ns = copy["hidden_ns"] + copy["exposed_ns"], copy["end_ns"] - copy["start_ns"]
        yield from _unless(parts == length_ns, f"copy {copy['row_id']}: hidden + exposed = length")
    yield from _findings(report)
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


def _steps(device: dict[str, Any]) -> Iterator[str]:
    name, steps, usual = f"device {device['id']}", device["steps"], device["per_step"]
    numbers = [step["index"] for step in steps]
    yield from _unless(numbers == sorted(set(numbers)), f"{name}: steps are in order, each once")
    yield from _unless((usual is None) == (not steps), f"{name}: medians if there are steps")
    for step in steps:
        yield from _step(step, f"{name} step {step['index']}")
    if usual is None:
        return
    yield from _unless(usual["steps"] >= len(steps), f"{name}: all steps are counted")
    yield from _unless(
        device["median_step"] in numbers or usual["steps"] > len(steps),
        f"{name}: the median step is one of them",
    )
    yield from _signs(usual, f"{name} per step")
    if usual["steps"] == 1:
        same = {key: value for key, value in steps[0].items() if key in usual}
        yield from _unless(same == {key: usual[key] for key in same}, f"{name}: one is the median")


def _step(step: dict[str, Any], name: str) -> Iterator[str]:
    duration, lost, stall = (step[f"{key}_ns"] for key in ("duration", "lost", "stall"))
    yield from _unless(duration == step["end_ns"] - step["start_ns"] >= 0, f"{name}: end - start")
    yield from _unless(
        step["compute_busy_ns"] + lost == duration, f"{name}: compute + lost = duration"
    )
    yield from _unless(sum(step["lost"].values()) == lost, f"{name}: owners add up to lost")
    yield from _unless(all(step["lost"].values()), f"{name}: only owners of something")
    yield from _unless(stall <= lost, f"{name}: stall <= lost")
    yield from _unless(step["stall_proven_ns"] <= stall, f"{name}: proven <= stall")
    ways = [step[way] for way in ("h2d", "d2h")]
    for key in ("stall_ns", "hideable_ns"):
        added = sum(figures[key] for figures in ways)
        yield from _unless(added == step[key], f"{name}: {key} of directions add up")
    for figures in ways:
        yield from _unless(
            figures["hideable_ns"] <= figures["stall_ns"], f"{name}: hideable <= stall"
        )
    yield from _unless(
        step["best_ns"] == duration - step["hideable_ns"], f"{name}: best = duration - hideable"
    )
    for way in ("h2d", "d2h", "both"):
        yield from _cover(step[way], f"{name} {way}")
    yield from _signs(step, name)


def _signs(figures: dict[str, Any], name: str) -> Iterator[str]:
    """Nothing that lasts is negative."""
    for key, value in figures.items():
        if isinstance(value, dict):
            yield from _signs(value, f"{name} {key}")
        elif key not in ("start_ns", "end_ns") and isinstance(value, int | float):
            yield from _unless(value >= 0, f"{name}: {key} >= 0")


def _findings(report: dict[str, Any]) -> Iterator[str]:
    findings = report["findings"]
    costs = [f["lost_ns_per_step"] + f["excess_ns_per_step"] for f in findings]
    rank = [(f["severity"] == "note", -cost) for f, cost in zip(findings, costs, strict=True)]
    yield from _unless(rank == sorted(rank), "findings come worst first, then notes")
    known = {device["id"]: device["per_step"] for device in report["devices"]}
    for finding, cost in zip(findings, costs, strict=True):
        name = f"finding {finding['cause']}"
        yield from _unless(finding["severity"] == "note" or cost > 0, f"{name} costs something")
        yield from _unless(known[finding["device"]] is not None, f"{name}: of a device with steps")
        plain = {k: v for k, v in finding["evidence"].items() if k not in ("spans",)}
        yield from _signs({**finding, "evidence": plain}, name)
        spans = finding["evidence"]["spans"]
        yield from _unless(all(start < end for start, end in spans), f"{name}: spans have length")
    for stall in report["stalls"]:
        yield from _unless(stall["start_ns"] < stall["end_ns"], "a stall has length")


def _sentences(report: dict[str, Any]) -> Iterator[str]:
    texts = [report["verdict"]["text"], *(w["message"] for w in report["trace"]["warnings"])]
    yield from _unless(len(set(texts)) == len(texts), "no warning is given twice")
    texts += [finding["message"] for finding in report["findings"]]
    for text in texts:
        whole = text.endswith(".") and "\n" not in text
        yield from _unless(whole, f"a sentence on one line: {text[:300]!r}")
