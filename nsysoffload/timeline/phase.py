"""The phase of training that an operation belongs to, from the name JAX gave it."""

__all__ = ["PHASES", "phase_of"]

PHASES = ("forward", "backward", "recompute", "other")

# The first that occurs in the name decides: what is recomputed runs within the backward pass, and
# the backward pass is the transpose of a forward one.
_SIGNS = (
    ("rematted_computation", "recompute"),
    ("transpose(jvp(", "backward"),
    ("jvp(", "forward"),
)


def phase_of(op_name: str) -> str:
    """Return which of `PHASES` an operation belongs to.

    Parameters
    ----------
    op_name : str
        JAX's path, as HLO metadata and NVTX thunk ranges have it; empty if unknown.

    Examples
    --------
    >>> phase_of("jit(step)/transpose(jvp())/while/body/checkpoint/rematted_computation/dot")
    'recompute'
    """
    return next((phase for sign, phase in _SIGNS if sign in op_name), "other")
