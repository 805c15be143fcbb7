"""Checks for other profilers, of which only one can trace a program."""

from collections.abc import Iterator

from nsysoffload.recorders.doctor.check import Check
from nsysoffload.recorders.machine.survey import Machine

__all__ = ["injected_check", "running_checks"]


def injected_check(machine: Machine) -> Check:
    """Warn of a profiler that the environment brings into every program."""
    if not machine.injected:
        return Check("profilers", "ok", "The environment brings in no other profiler.")
    return Check(
        "profilers",
        "warning",
        f"The environment brings in another profiler ({', '.join(machine.injected)}), and only one "
        "can trace a program.",
        "Unset that, and do not run this under a profiler.",
    )


def running_checks(machine: Machine) -> Iterator[Check]:
    """Warn of profilers that run; among ranks, nsys is that of another rank."""
    expected = {"nsys", "nsys-launcher"} if machine.rank else set()
    running = [name for name in machine.running if name not in expected]
    if running:
        yield Check(
            "running",
            "warning",
            f"Other profilers run on this machine: {', '.join(running)}; one on the same GPUs "
            "changes times, or takes what is to be recorded.",
            "Wait for it, or pause it (DCGM: dcgmi profile --pause).",
        )
