"""Where the named values of a layer rest between its forward and its backward pass, as text.

``offload:query,key+save:attention_out``: the first two in host memory, the third on the device, and
all others are made again. Nothing here needs JAX.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from nsysoffload.errors import UsageError

__all__ = ["Placement", "is_placement", "placement"]

_KINDS = ("offload", "save")


@dataclass(frozen=True)
class Placement:
    """Names whose values go to host memory, and those that stay on the device."""

    offloaded: tuple[str, ...] = ()
    saved: tuple[str, ...] = ()

    @property
    def found(self) -> frozenset[str]:
        """Names whose values the backward pass finds, and need not make again."""
        return frozenset(self.offloaded + self.saved)

    @property
    def text(self) -> str:
        """The policy that places values so.

        Examples
        --------
        >>> Placement(("query",), ("key", "value")).text, Placement().text
        ('offload:query+save:key,value', 'remat')
        """
        chosen = zip(_KINDS, (self.offloaded, self.saved), strict=True)
        return "+".join(f"{kind}:{','.join(names)}" for kind, names in chosen if names) or "remat"


def is_placement(text: str) -> bool:
    """Whether a policy says by name what becomes of values, rightly or not."""
    kinds = [part.partition(":")[0] for part in text.split("+")]
    return ":" in text and all(kind in _KINDS for kind in kinds)


def placement(text: str, names: Iterable[str]) -> Placement:
    """Read where values go, ``offload:NAME,...`` and ``save:NAME,...`` in either order, or one.

    Parameters
    ----------
    text : str
        The policy.
    names : iterable of str
        The names that the model has.

    Raises
    ------
    UsageError
        If a name is unknown or given twice, or a part is.
    """
    known = tuple(names)
    parts = [part.partition(":") for part in text.split("+")]
    kinds = [kind.strip() for kind, _, _ in parts]
    if len(set(kinds)) < len(kinds):
        raise UsageError(f"Policy '{text}' has two parts of a kind; join their names by commas.")
    chosen = {
        kind: tuple(name.strip() for name in listed.split(","))
        for kind, (_, _, listed) in zip(kinds, parts, strict=True)
    }
    every = [name for listed in chosen.values() for name in listed]
    if "" in every:
        raise UsageError(f"Policy '{text}' has an empty name; write NAME,NAME after the colon.")
    for name in every:
        if name not in known:
            raise UsageError(f"The model names no value '{name}'; choose from {', '.join(known)}.")
        if every.count(name) > 1:
            raise UsageError(
                f"Policy '{text}' has {name} twice; a value has one place, name it once."
            )
    return Placement(chosen.get("offload", ()), chosen.get("save", ()))
