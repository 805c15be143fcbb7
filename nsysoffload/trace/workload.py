"""What a run trains: by it two runs are of one model, and steps of different batches compare."""

from dataclasses import dataclass

__all__ = ["Workload", "is_offload"]


@dataclass(frozen=True)
class Workload:
    """A train step. ``batch`` are sequences of a step over all devices, ``seq`` tokens of each.

    ``mesh`` is text such as ``fsdp=8``, empty for one device; ``layers`` is how many the model has.
    """

    model: str
    layers: int
    batch: int
    seq: int
    mesh: str
    optimizer: str
    offload_optimizer: bool

    @property
    def tokens(self) -> int:
        """Return the tokens of a step over all devices."""
        return self.batch * self.seq


def is_offload(variant: str) -> bool:
    """Tell by its name whether a variant is to offload; as a policy it may say so in its end.

    Examples
    --------
    >>> is_offload("offload-dots"), is_offload("save:query+offload:key"), is_offload("save:query")
    (True, True, False)
    """
    return variant.startswith("offload") or "+offload:" in variant
