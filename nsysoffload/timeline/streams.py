"""Streams as small numbers: a stream id is unique within a process and context only."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["stream_codes"]

_PLACE = ("process", "context", "stream")


def stream_codes(frames: Sequence[pd.DataFrame]) -> list[NDArray[np.int64]]:
    """Return a number per stream for rows of several tables, alike in all of them.

    Parameters
    ----------
    frames : sequence of DataFrame
        Rows with ``process``, ``context`` and ``stream``.

    Returns
    -------
    list of int64 array
        A code per row for each frame.
    """
    lengths = [len(frame) for frame in frames]
    code = np.zeros(sum(lengths), dtype=np.int64)
    for name in _PLACE:
        values = np.concatenate([frame[name].to_numpy() for frame in frames])
        if len(values) and (values == values[0]).all():
            continue  # of most traces the process and the context are one
        part, distinct = pd.factorize(values)
        packed = code * len(distinct) + part
        code = packed if not code.any() else pd.factorize(packed)[0].astype(np.int64)
    return np.split(code, np.cumsum(lengths)[:-1])
