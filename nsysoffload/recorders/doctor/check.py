"""One thing that was looked at."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Check"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes
    ----------
    name : str
        What was looked at.
    state : str
        ``ok``, ``warning``, or ``problem``: recording will fail or is of no use.
    text, advice : str
        What was found, in a sentence, and what to do, in another; that may be empty.
    """

    name: str
    state: Literal["ok", "warning", "problem"]
    text: str
    advice: str = ""
