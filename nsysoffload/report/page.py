"""What HTML pages share: figures as elements, the files that are inlined, what a page may do."""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nsysoffload.report import figures
from nsysoffload.report import format as fmt
from nsysoffload.report.cards import Figure, Words

__all__ = ["MAX_BYTES", "Numbers", "environment", "inlined", "policy"]

MAX_BYTES = 3_000_000
"""No page is larger."""

_PLOTLY, _SCRIPT = "plotly-basic.min.js", "report.js"
_CODE = re.compile(r"(--\w[\w-]*(?:=[\w.,-]*\w)?|\bjax(?:\.\w+)+)")


class Numbers:
    """Figures of a JSON document by path, as elements of the page.

    Parameters
    ----------
    data : dict of str to Any
        The document.
    unknown : mapping of str to str
        Why a figure may be unknown, by the end of its path.
    """

    def __init__(self, data: dict[str, Any], unknown: Mapping[str, str]) -> None:
        self._data = data
        self._unknown = unknown

    def __call__(self, path: str, unit: str = "") -> Markup:
        """Return the figure in its unit; where the trace can't tell, a dash and the reason.

        The end of a path's name states the unit, unless `unit` does.
        """
        value, key = self._value(path), unit or path.rpartition(".")[2]
        if value is None:
            return self.unknown(path, self._reason(path, key))
        return self.shown(path, fmt.shorten(fmt.figure(key, value), 160))

    def shown(self, path: str, text: str) -> Markup:
        """Return the figure as it is put in words elsewhere."""
        figure = '<data value="{}" data-path="{}">{}</data>'
        return Markup(figure).format(self._value(path), path, text)

    def unknown(self, path: str, reason: str) -> Markup:
        """Return a dash that says why there is no figure."""
        dash = '<abbr class="null" title="{}" data-path="{}">{}</abbr>'
        return Markup(dash).format(reason, path, fmt.UNKNOWN)

    def filled(self, words: Words) -> Markup:
        """Put words and figures together, the figures as elements."""
        return Markup("").join(
            self(part.path) if isinstance(part, Figure) else part for part in words
        )

    def meter(self, path: str) -> Markup:
        """Return a bar for a share, nothing where it's unknown."""
        value = self._value(path)
        if value is None:
            return Markup("")
        return Markup('<i class="meter" style="--part: {:.1f}%"></i>').format(100 * value)

    def _value(self, path: str) -> Any:
        value: Any = self._data
        for key in path.split("."):
            value = value[int(key)] if isinstance(value, list) else value[key]
        return value

    def _reason(self, path: str, key: str) -> str:
        if key == "overlap":
            return fmt.shorten(fmt.plain(str(self._value(f"{path}_null_reason"))), 300)
        return self._unknown.get(key, "the trace doesn't have it")


@cache
def environment(*packages: str) -> Environment:
    """Return what renders the templates of these packages and those that all pages share."""
    found = Environment(
        loader=ChoiceLoader([PackageLoader(p) for p in (*packages, "nsysoffload.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    found.filters |= _FILTERS
    found.globals |= {
        "themes": figures.THEMES,
        "marks_of": figures.BAR_MARKS,
        "plotly": inlined(_PLOTLY),
        "script": inlined(_SCRIPT),
        "policy": policy(),
    }
    return found


@cache
def inlined(name: str, package: str = "nsysoffload.report") -> Markup:
    """Read a file of the page that is ours or plotly's, so that it needs no escaping."""
    file = resources.files(package) / "templates" / name
    return Markup(file.read_text(encoding="utf-8"))


@cache
def policy() -> str:
    """State what the page may do: run these two scripts and nothing else, load nothing."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(inlined(name).encode()).digest()).decode()}'"
        for name in (_PLOTLY, _SCRIPT)
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _coded(text: str) -> Markup:
    """Return a sentence in which flags and names of functions are code."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else part
        for number, part in enumerate(_CODE.split(text))
    )


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "class_name": figures.class_name,
    "coded": _coded,
    "count": fmt.count,
    "duration": fmt.duration,
    "shorten": lambda text, width: fmt.shorten(fmt.plain(text), width),
    "span": fmt.span,
}
