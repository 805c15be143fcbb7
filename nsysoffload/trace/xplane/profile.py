"""An XPlane file, opened by jaxlib's own reader.

A profile has planes (a GPU, the host), these have lines (a stream, a thread), and these have events
with stats, which are names and values. Names are as in XLA's `xplane_schema.cc`.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from nsysoffload.errors import TraceError
from nsysoffload.trace.tables import UNSET

if TYPE_CHECKING:
    from jax.profiler import ProfileData, ProfilePlane

__all__ = ["Plane", "Profile", "Row", "frame_of", "integer", "opened"]

_LOST = b"GPU events dropped"  # of XSpace.warnings, which the reader does not show
_FARTHEST_NS = 2.0**62  # beyond it, ends would overflow; no row there is believed

type Plane = ProfilePlane
Row = tuple[object, ...]


class Profile:
    """A profile; ``planes`` in the file's order, ``events_lost`` if XLA says that it lost some."""

    def __init__(self, data: "ProfileData", events_lost: bool) -> None:
        self.planes = list(data.planes)
        self.events_lost = events_lost


@contextmanager
def opened(path: Path) -> Iterator[Profile]:
    """Open a profile; errors of the reader while it is read become a `TraceError`.

    Raises
    ------
    TraceError
        If jax is not installed, or the file is no profile or is damaged.
    """
    try:
        from jax.profiler import ProfileData
    except ImportError as error:
        raise TraceError(
            f"{path.name} is read with jax, which cannot be imported;"
            " install it with pip install 'nsysoffload[workloads]'."
        ) from error
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path.name} cannot be read ({error.strerror}); check it.") from error
    if not content:
        raise TraceError(f"{path.name} is empty; record the profile again.")
    with warnings.catch_warnings():
        # The reader makes types as it goes, of a form that Python 3.13 deprecates.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            yield Profile(ProfileData.from_serialized_xspace(content), _LOST in content)
        except (RuntimeError, UnicodeDecodeError) as error:
            raise TraceError(
                f"{path.name} is damaged or no profile of jax.profiler; copy or record it again."
            ) from error


def frame_of(rows: Iterable[Row], columns: Mapping[str, str]) -> pd.DataFrame:
    """Return rows as a frame, ``duration_ns`` replaced by ``end_ns``.

    XPlane has picoseconds. The reader gives whole nanoseconds, rounded down, as floats: exact for
    104 days from the start of the profile, where XLA's clock begins.

    Parameters
    ----------
    rows : iterable of tuple
        Start and duration, then the other columns.
    columns : mapping of str
        Their dtypes by name.
    """
    names = ["start_ns", "duration_ns", *columns]
    frame = pd.DataFrame.from_records(list(rows), columns=names).astype(dict(columns))
    start, duration = (
        np.clip(frame[name].to_numpy(np.float64), -_FARTHEST_NS, _FARTHEST_NS).astype(np.int64)
        for name in names[:2]
    )
    return frame.drop(columns="duration_ns").assign(start_ns=start, end_ns=start + duration)


def integer(value: object) -> int:
    """Return a stat's value if it is an integer that fits a column, else UNSET."""
    return value if isinstance(value, int) and 0 <= value < 2**63 else UNSET
