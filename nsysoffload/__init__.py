"""Measure how far JAX host offloading hides behind compute, from an Nsight Systems trace.

In five lines::

    import nsysoffload

    report = nsysoffload.analyze("step.sqlite")
    print(report.verdict.text, report.total.both.overlap)
    nsysoffload.write(report, "reports/step")

Names are imported when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nsysoffload.analysis import analyze, load, write
    from nsysoffload.errors import GateFailed, OffloadError, TraceError, UsageError
    from nsysoffload.report.model import Report
    from nsysoffload.trace.tables import Trace

__all__ = [
    "GateFailed",
    "OffloadError",
    "Report",
    "Trace",
    "TraceError",
    "UsageError",
    "analyze",
    "load",
    "write",
]

_HOME = {
    "analyze": "nsysoffload.analysis",
    "load": "nsysoffload.analysis",
    "write": "nsysoffload.analysis",
    "GateFailed": "nsysoffload.errors",
    "OffloadError": "nsysoffload.errors",
    "TraceError": "nsysoffload.errors",
    "UsageError": "nsysoffload.errors",
    "Report": "nsysoffload.report.model",
    "Trace": "nsysoffload.trace.tables",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("nsysoffload")
    if name not in _HOME:
        raise AttributeError(f"module 'nsysoffload' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
