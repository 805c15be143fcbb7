"""Numbers with a unit, as users write them: ``5ms``, ``16GiB``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from nsysoffload.errors import UsageError

__all__ = ["SIZES", "TIMES", "Amount", "amount", "parse_size"]

TIMES: Mapping[str, Decimal | int] = {
    "ns": Decimal("1e-6"),
    "us": Decimal("1e-3"),
    "µs": Decimal("1e-3"),
    "ms": 1,
    "s": 1000,
}
"""Units of time, in milliseconds."""

SIZES: Mapping[str, Decimal | int] = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGT", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
}
"""Units of data, in bytes."""

_AMOUNT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?)\s*([^\d\s].*)?", re.I)
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Amount:
    """A number as it was written, and what stands behind it."""

    number: str
    unit: str

    def times(self, factor: Decimal | int) -> Decimal:
        """Return the number in another unit."""
        return Decimal(self.number) * factor


def amount(text: str) -> Amount | None:
    """Split a number from its unit; None if there is no number.

    Examples
    --------
    >>> amount("1.5 GB")
    Amount(number='1.5', unit='GB')
    """
    match = _AMOUNT.fullmatch(text)
    return Amount(match[1], match[2] or "") if match else None


def parse_size(text: str) -> int:
    """Read an amount of data, in bytes.

    Raises
    ------
    UsageError
        If it is none, or nothing.

    Examples
    --------
    >>> parse_size("16GiB"), parse_size("1.5GB"), parse_size("512")
    (17179869184, 1500000000, 512)
    """
    found = amount(text.strip())
    if found and (found.unit or "B") in SIZES:
        size = found.times(SIZES[found.unit or "B"])
        if 1 <= size <= _LARGEST:
            return int(size)
    raise UsageError(f"'{text}' is no size; write it like 16GiB or 1.5GB.")
