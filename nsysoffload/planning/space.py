"""All ways to place the named values of a model, and what each costs by formula.

A row is a way, a column a name. A layer's input is on the device in any case, for the loop over the
layers hands it on: it is left there or offloaded, and never kept twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nsysoffload.errors import UsageError
from nsysoffload.recorders.predict.capture import Request, options_of
from workloads.config import model
from workloads.flops import flops
from workloads.names import named_bytes, names, parts
from workloads.placement import Placement
from workloads.recompute import recompute_flops
from workloads.sharding import parse_mesh

__all__ = ["Space", "space"]

Flags = NDArray[np.bool_]
_MADE_AGAIN, _KEPT, _OFFLOADED = range(3)
_CARRIED = "layer_input"


@dataclass(frozen=True)
class Space:
    """All placements of some names.

    Attributes
    ----------
    names : tuple of str
        The names; those of the model that are not here are recomputed.
    kept, offloaded : bool array, shape (placements, names)
        Where each value goes; recomputed where neither. The first row is policy ``remat``.
    name_bytes : int64 array, shape (names,)
        Bytes of each name's values on one device, in all layers.
    recompute_flops : float64 array, shape (placements,)
        Operations that are run again in a step, over all devices.
    name_flops : float64 array, shape (names,)
        How many fewer those are where a name alone is found.
    model_flops : int
        Operations of a step without any that are run again.
    is_whole : bool
        Whether these are all names of the model.
    """

    names: tuple[str, ...]
    kept: Flags
    offloaded: Flags
    name_bytes: NDArray[np.int64]
    recompute_flops: NDArray[np.float64]
    name_flops: NDArray[np.float64]
    model_flops: int
    is_whole: bool

    def __len__(self) -> int:
        """Return how many placements there are."""
        return len(self.kept)

    @property
    def device_bytes(self) -> NDArray[np.int64]:
        """Device memory of each placement over that of ``remat``, without any buffers."""
        freed = self.offloaded & (np.asarray(self.names) == _CARRIED)
        return np.asarray((self.kept.astype(np.int64) - freed) @ self.name_bytes)

    @property
    def host_bytes(self) -> NDArray[np.int64]:
        """Host memory of each placement, which is also what crosses the link each way."""
        return np.asarray(self.offloaded @ self.name_bytes)

    def policy(self, row: int) -> str:
        """Return the policy of a placement."""
        chosen = (self.offloaded[row], self.kept[row])
        return Placement(*(tuple(np.asarray(self.names)[flags].tolist()) for flags in chosen)).text


def space(request: Request, chosen: Sequence[str] | None = None) -> Space:
    """Return all placements of a model's names.

    Parameters
    ----------
    request : Request
        What is trained.
    chosen : sequence of str, optional
        Names that may be kept or offloaded; all of the model's where none are given.

    Raises
    ------
    UsageError
        If there is no such model, or it has no such name.
    """
    workload = options_of(request).workload
    assert workload
    config = model(request.model, request.layers)
    known = names(config)
    for name in chosen or ():
        if not name:
            raise UsageError("A name is empty; write NAME,NAME.")
        if name not in known:
            raise UsageError(f"The model names no value '{name}'; choose from {', '.join(known)}.")
    some = tuple(name for name in known if chosen is None or name in chosen)
    if not some:
        raise UsageError("There is no name to place; give at least one, or leave the choice open.")
    batch, seq = workload.batch, workload.seq
    sizes, axes = named_bytes(config, batch, seq), parse_mesh(request.mesh)
    kept, offloaded = _placements(some)
    largest = max(sizes[name].total for name in some)
    if largest > np.iinfo(np.int64).max:
        raise UsageError(
            f"Values of {largest:.0e} bytes are beyond all computers; ask for a smaller --batch,"
            " --seq or --layers."
        )
    found = (kept | offloaded).T
    alone = np.eye(len(some), dtype=bool)
    flops_of = [
        recompute_flops(config, batch, seq, dict(zip(some, which, strict=True))).astype(float)
        for which in (found, alone, np.zeros((len(some), 1), bool))
    ]
    return Space(
        names=some,
        kept=kept,
        offloaded=offloaded,
        name_bytes=np.array([sizes[n].total // parts(n, axes) for n in some], np.int64),
        recompute_flops=np.broadcast_to(flops_of[0], len(kept)),
        name_flops=np.broadcast_to(flops_of[2] - flops_of[1], len(some)),
        model_flops=flops(config, batch, seq).model,
        is_whole=some == known,
    )


def _placements(some: tuple[str, ...]) -> tuple[Flags, Flags]:
    everywhere, carried = (_MADE_AGAIN, _KEPT, _OFFLOADED), (_MADE_AGAIN, _OFFLOADED)
    choices = [carried if name == _CARRIED else everywhere for name in some]
    places = np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, len(some))
    return places == _KEPT, places == _OFFLOADED
