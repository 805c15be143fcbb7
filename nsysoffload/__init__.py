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
    from nsysoffload.analysis import analyze, load
    from nsysoffload.comparison.files import compare
    from nsysoffload.comparison.model import Comparison
    from nsysoffload.errors import GateFailed, OffloadError, TraceError, UsageError
    from nsysoffload.output import write
    from nsysoffload.report.model import Report
    from nsysoffload.trace.tables import Trace

__all__ = [
    "Comparison",
    "GateFailed",
    "OffloadError",
    "Report",
    "Trace",
    "TraceError",
    "UsageError",
    "analyze",
    "compare",
    "load",
    "write",
]

_HOME = {
    "analyze": "nsysoffload.analysis",
    "compare": "nsysoffload.comparison.files",
    "load": "nsysoffload.analysis",
    "write": "nsysoffload.output",
    "Comparison": "nsysoffload.comparison.model",
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
