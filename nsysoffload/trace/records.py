"""Dataclasses from plain values, as JSON gives them: what does not fit is refused."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

__all__ = ["record"]

_LARGEST = 2**63 - 1


def record(kind: Any, value: Any) -> Any:
    """Return a value of a type out of parsed JSON.

    Parameters
    ----------
    kind : type
        A dataclass, whose keys are its fields' names without a closing underscore; a union, of
        which the first that fits is taken; ``tuple[X, ...]``, ``tuple[X, Y]``,
        ``Mapping[str or int, X]``, ``int``, ``float``, ``str``, ``bool``, ``None``, or ``Any``.
    value : Any
        Dictionaries, lists and values. A key that is missing takes the field's default.

    Raises
    ------
    TypeError
        If it does not fit: also a number that is not finite or has no 64 bits.
    """
    if kind is Any:
        return value
    if is_dataclass(kind) and isinstance(kind, type):
        return _filled(kind, value)
    if isinstance(kind, UnionType):
        return _first(get_args(kind), value)
    if get_origin(kind) is tuple:
        return _items(get_args(kind), value)
    if get_origin(kind) is Mapping:
        keys, values = get_args(kind)
        return _mapped(keys, values, value)
    number = type(value) in (int, float)
    fits = type(value) is kind or (kind is float and number)
    if not fits or (number and not abs(value) <= _LARGEST):  # NaN is not, either
        raise TypeError(f"{value!r:.80} is no {kind}")
    return float(value) if kind is float else value


def _filled(kind: type, value: Any) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.80} is no object")
    found = {}
    for name, (field, hint) in _fields(kind).items():
        key = name.removesuffix("_")
        if key in value:
            found[name] = record(hint, value[key])
        elif field.default is MISSING and field.default_factory is MISSING:
            raise TypeError(f"{key} is missing")
    return kind(**found)


@cache
def _fields(kind: type) -> Mapping[str, tuple[Field[Any], Any]]:
    """Fields of a dataclass that have a JSON key, with their types."""
    hints = get_type_hints(kind)
    shown = (field for field in fields(kind) if field.metadata.get("json", True))
    return {field.name: (field, hints[field.name]) for field in shown}


def _first(kinds: tuple[Any, ...], value: Any) -> Any:
    for kind in kinds:
        try:
            return record(kind, value)
        except TypeError as error:
            last = error
    raise last


def _items(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.80} is no list")
    if kinds[-1] is ...:
        return tuple(record(kinds[0], item) for item in value)
    if len(kinds) != len(value):
        raise TypeError(f"{value!r:.80} has not {len(kinds)} entries")
    return tuple(record(kind, item) for kind, item in zip(kinds, value, strict=True))


def _mapped(keys: type, values: Any, value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.80} is no object")
    if keys is not int:
        return {key: record(values, item) for key, item in value.items()}
    if not all(key.removeprefix("-").isdecimal() for key in value):
        raise TypeError(f"{value!r:.80} has keys that are no numbers")
    return {int(key): record(values, item) for key, item in value.items()}
