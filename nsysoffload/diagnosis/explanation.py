"""What a cause means, in words: one record per cause."""

from dataclasses import dataclass

__all__ = ["Explanation"]


@dataclass(frozen=True)
class Explanation:
    """A cause as its readers need it: what happened, how it is told, what to change.

    Attributes
    ----------
    cause : str
        Its id, such as ``issued_too_late``.
    title : str
        What it is called, without a full stop.
    meaning : str
        What goes on in the machine.
    detection : str
        By which rows it is told.
    thresholds : tuple of (str, str)
        What is compared, and with which value.
    advice_xla : str
        What to change in a JAX program, by the names of its calls and of XLA's flags.
    advice_cuda : str
        The same in words of CUDA.
    owns : str or None
        Which part of the lost time is this cause's; None if none is.
    excess : str or None
        Which excess time it costs, by which kernels or copies took longer than alone; None if none.
    """

    cause: str
    title: str
    meaning: str
    detection: str
    thresholds: tuple[tuple[str, str], ...]
    advice_xla: str
    advice_cuda: str
    owns: str | None
    excess: str | None = None

    @property
    def cost(self) -> str:
        """Return which time it costs, in words."""
        if self.owns:
            return f"lost time: {self.owns}"
        return f"excess time: {self.excess}" if self.excess else "nothing by itself"
