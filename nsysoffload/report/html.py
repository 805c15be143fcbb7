"""The report as one HTML page that works offline.

Numbers on the page are looked up in the JSON report by path, so the two can't differ, and each
stands in an element with its path and its unrounded value.
"""

import base64
import hashlib
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from nsysoffload.report import figures, lane_figure
from nsysoffload.report import format as fmt
from nsysoffload.report.json import to_dict
from nsysoffload.report.model import Report

__all__ = ["render"]

_TOP_KERNELS = 30
_MOST_KERNELS = 300
_OUTCOMES = {
    "hidden": ("✓", "Hidden"),
    "partly_hidden": ("◐", "Partly hidden"),
    "exposed": ("!", "Exposed"),
    "no_transfers": ("–", "No transfers"),
    "cannot_tell": ("?", "Cannot tell"),
}
_REASONS = {
    "bytes": "the trace has no sizes",
    "gbps": "no copy has both a size and a length",
    "best_gbps": "no copy has both a size and a length",
    "burst_gbps": "no copy has both a size and a length",
    "lone_gbps": "no pinned copy of 1 MiB or more ran with nothing beside it",
}


def render(report: Report) -> str:
    """Write the report as an HTML page.

    Parameters
    ----------
    report : Report
        The report.

    Returns
    -------
    str
        A whole page: stylesheet, script, figures and the JSON report are in it.
    """
    data = to_dict(report)
    show = _Numbers(data)
    scripts = {name: Markup(_asset(file)) for name, file in _SCRIPTS.items()}  # noqa: S704
    page = _environment().get_template("report.html.j2")
    return page.render(
        report=data,
        show=show,
        meter=show.meter,
        cards=list(_cards(report, show)),
        **_texts(report),
        **_drawn(report),
        **scripts,
        style=Markup(_asset("style.css")),  # noqa: S704
        policy=_policy(),
        top=_TOP_KERNELS,
        most=_MOST_KERNELS,
    )
