"""Dataclasses from plain values, as JSON gives them: what does not fit is refused."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

__all__ = ["record"]

_LARGEST = 2**63 - 1
_SPOKEN = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


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
        If it does not fit, which says where: also a number that is not finite or too large for 64
        bits.
    """
    return _record(kind, value, "")


def _record(kind: Any, value: Any, at: str) -> Any:
    if kind is Any:
        return value
    if is_dataclass(kind) and isinstance(kind, type):
        return _filled(kind, value, at)
    if isinstance(kind, UnionType):
        return _first(get_args(kind), value, at)
    if get_origin(kind) is tuple:
        return _items(get_args(kind), value, at)
    if get_origin(kind) is Mapping:
        keys, values = get_args(kind)
        return _mapped(keys, values, value, at)
    number = type(value) in (int, float)
    if type(value) is not kind and not (kind is float and number):
        raise _unfit(value, at, f"not {_SPOKEN.get(kind, 'null')}")
    if number and not abs(value) <= _LARGEST:  # NaN is not, either
        raise _unfit(value, at, "no number of 64 bits")
    return float(value) if kind is float else value


def _unfit(value: Any, at: str, why: str) -> TypeError:
    return TypeError(f"{at or 'it'} is {json.dumps(value)[:80]}, {why}")


def _filled(kind: type, value: Any, at: str) -> Any:
    if not isinstance(value, dict):
        raise _unfit(value, at, "not an object")
    found = {}
    for name, (field, hint) in _fields(kind).items():
        key = name.removesuffix("_")
        if key in value:
            found[name] = _record(hint, value[key], _key(at, key))
        elif field.default is MISSING and field.default_factory is MISSING:
            raise TypeError(f"{_key(at, key)} is missing")
    return kind(**found)


@cache
def _fields(kind: type) -> Mapping[str, tuple[Field[Any], Any]]:
    """Fields of a dataclass that have a JSON key, with their types."""
    hints = get_type_hints(kind)
    shown = (field for field in fields(kind) if field.metadata.get("json", True))
    return {field.name: (field, hints[field.name]) for field in shown}


def _key(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key


def _first(kinds: tuple[Any, ...], value: Any, at: str) -> Any:
    """Take the first kind that fits; if none does, the complaint is about the first."""
    if value is None and NoneType in kinds:
        return None
    complaints = []
    for kind in kinds:
        if kind is not NoneType:
            try:
                return _record(kind, value, at)
            except TypeError as error:
                complaints.append(error)
    raise complaints[0]


def _items(kinds: tuple[Any, ...], value: Any, at: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _unfit(value, at, "not a list")
    if kinds[-1] is ...:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise _unfit(value, at, f"not a list of {len(kinds)}")
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(_record(kind, item, f"{at}[{index}]") for index, (kind, item) in pairs)


def _mapped(keys: type, values: Any, value: Any, at: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise _unfit(value, at, "not an object")
    if keys is int and not all(key.removeprefix("-").isdecimal() for key in value):
        raise _unfit(value, at, "with keys that are no numbers")
    return {keys(key): _record(values, item, _key(at, key)) for key, item in value.items()}
