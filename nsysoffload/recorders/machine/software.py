"""Python, and the packages of jax in it; nothing is imported."""

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

__all__ = ["Software", "software"]

_PLUGINS = ("jax-cuda13-plugin", "jax-cuda12-plugin")


@dataclass(frozen=True)
class Software:
    """Versions; None where a package is not installed.

    Attributes
    ----------
    python, jax, jaxlib : str or None
        Of this Python.
    plugin : str or None
        Name of jax's CUDA plugin.
    plugin_version, pjrt_version : str or None
        Of the plugin's two packages.
    """

    python: str
    jax: str | None
    jaxlib: str | None
    plugin: str | None
    plugin_version: str | None
    pjrt_version: str | None


def software() -> Software:
    """Return the versions of this Python and of the packages of jax in it."""
    plugin = next((name for name in _PLUGINS if _version(name)), None)
    return Software(
        python=platform.python_version(),
        jax=_version("jax"),
        jaxlib=_version("jaxlib"),
        plugin=plugin,
        plugin_version=_version(plugin) if plugin else None,
        pjrt_version=_version(plugin.replace("plugin", "pjrt")) if plugin else None,
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
