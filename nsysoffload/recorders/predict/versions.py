"""The packages that compile for a GPU, and their one version whose output is understood."""

import sys
from importlib.metadata import PackageNotFoundError, version

from nsysoffload.errors import OffloadError

__all__ = [
    "INSTALL",
    "JAX_VERSION",
    "PACKAGES",
    "WRONG_GRADIENTS",
    "VersionError",
    "check_versions",
]

JAX_VERSION = "0.12.0.1"
"""The release that predictions are made with: schedules and their text differ between releases."""

PACKAGES = ("jax", "jaxlib", "jax-cuda13-plugin", "jax-cuda13-pjrt")

WRONG_GRADIENTS = frozenset({"0.10.2", "0.11.0"})
"""Releases of jax that return wrong gradients for a scan that offloads (openxla/xla#46231)."""

INSTALL = "run: pip install 'nsysoffload[predict]'"
"""How an error ends that this command mends."""


class VersionError(OffloadError):
    """A package that compiling needs is missing, or is not the release that is understood."""


def check_versions() -> None:
    """Check, without importing them, that the packages are there in the pinned release.

    Raises
    ------
    VersionError
        If one of them is missing or of another release.
    """
    for package in PACKAGES:
        try:
            found = version(package)
        except PackageNotFoundError:
            raise VersionError(_missing(package)) from None
        if package == "jax" and found in WRONG_GRADIENTS:
            raise VersionError(
                f"jax {found} returns wrong gradients, without a warning, for a scan that offloads "
                f"(openxla/xla#46231); for jax {JAX_VERSION} {INSTALL}"
            )
        if found != JAX_VERSION:
            raise VersionError(
                f"{package} {found} is out of range: predictions are made with {JAX_VERSION} "
                f"alone, as schedules differ between releases; {INSTALL}"
            )


def _missing(package: str) -> str:
    if sys.platform != "linux":
        return f"{package} is not installed, and the CUDA compiler of jax exists on Linux alone."
    return f"{package} is not installed, and a prediction needs it; {INSTALL}"
