"""What may leave the machine: texts without paths, traces without what names a GPU or a user."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from nsysoffload.trace.tables import Trace

__all__ = ["nameless", "without_paths"]

# Behind a letter or a closing bracket a slash belongs to JAX's path of an operation.
_ABSOLUTE = re.compile(
    r"""(?<![\w)\]}>.*-])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\,;:'"#]+[/\\])+[^\s/\\,;:'"#]*"""
)


def without_paths(text: str) -> str:
    """Return a text with ``PATH`` for each absolute path in it.

    Examples
    --------
    >>> without_paths("open /home/me/run.py: jit(step)/jvp()/while/body/dot_general")
    'open PATH: jit(step)/jvp()/while/body/dot_general'
    """
    return _ABSOLUTE.sub("PATH", text)


def nameless(trace: Trace) -> Trace:
    """Return a trace without uuids of GPUs, and without paths in its names and texts."""
    gpus = trace.gpus.assign(
        uuid=None,
        id=[f"{pid}:{ordinal}" for pid, ordinal in trace.gpus[["pid", "ordinal"]].to_numpy()],
    )
    return replace(
        trace,
        gpus=gpus,
        kernels=trace.kernels.assign(name=_texts(trace.kernels["name"])),
        nvtx_ranges=trace.nvtx_ranges.assign(text=_texts(trace.nvtx_ranges["text"])),
    )


def _texts(texts: "pd.Series[Any]") -> pd.Categorical:
    """Clean a column of texts; two that are equal then become one."""
    cleaned = [without_paths(text) for text in texts.cat.categories]
    codes, kept = pd.factorize(np.array(cleaned, dtype=object))
    of_row = np.append(codes, -1)[texts.cat.codes.to_numpy()]
    return pd.Categorical.from_codes(of_row, categories=pd.Index(kept, dtype=object))
