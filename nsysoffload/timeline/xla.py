"""What the texts of XLA's NVTX ranges say of its programs and their operations.

The forms, in any domain::

    XlaModule:#prefix=jit(step),hlo_module=jit_step,program_id=12#
    Thunk:#name=jvp()/dot_general,hlo_op=fusion.3,unique_hlo_op_id=7#

XLA leaves the prefix that all operations of a program share out of their names, and ``name`` or
``prefix`` where there is none.
"""

import re

__all__ = ["MODULE", "THUNK", "fields", "op_name"]

MODULE, THUNK = "XlaModule:#", "Thunk:#"

_KEY = re.compile(r"(?:^|,)(name|hlo_op|unique_hlo_op_id|prefix|hlo_module|program_id)=")
_BRACKETS = {**dict.fromkeys("([{", 1), **dict.fromkeys(")]}", -1)}


def fields(text: str) -> dict[str, str]:
    """Return the keys and values of a range's text, in whatever order; none of other texts.

    Examples
    --------
    >>> fields("Thunk:#name=jit(f)/sum[axes=(0,),name=x]/bd,de->be,hlo_op=fusion.1#")
    {'name': 'jit(f)/sum[axes=(0,),name=x]/bd,de->be', 'hlo_op': 'fusion.1'}
    """
    kind = next((kind for kind in (MODULE, THUNK) if text.startswith(kind)), None)
    if kind is None:
        return {}
    body = text.removeprefix(kind).removesuffix("#")
    keys = list(_KEY.finditer(body))
    if len({key[1] for key in keys}) < len(keys):
        # What stands within brackets belongs to an operation's name.
        keys = [key for key in keys if _depth(body[: key.start()]) == 0] or keys
    ends = [*(key.start() for key in keys), len(body)][1:]
    found = {key[1]: body[key.end() : end] for key, end in zip(keys, ends, strict=True)}
    return {key: value for key, value in found.items() if value}


def op_name(name: str, prefix: str) -> str:
    """Return JAX's whole path of an operation from its thunk's name and its module's prefix.

    Examples
    --------
    >>> op_name("jvp()/dot_general", "jit(step)")
    'jit(step)/jvp()/dot_general'
    """
    if not prefix or not name or name == prefix or name.startswith(f"{prefix}/"):
        return name
    return f"{prefix}/{name}"


def _depth(text: str) -> int:
    return sum(_BRACKETS.get(letter, 0) for letter in text)
