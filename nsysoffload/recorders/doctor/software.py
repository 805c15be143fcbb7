"""Checks of Python, jax and its CUDA plugin."""

from collections.abc import Iterator

from nsysoffload.recorders.doctor.check import Check
from nsysoffload.recorders.machine.survey import Machine
from nsysoffload.recorders.predict.versions import WRONG_GRADIENTS

__all__ = ["software_checks"]


def software_checks(machine: Machine, offload: bool) -> Iterator[Check]:
    """Judge jax and its CUDA plugin; other programs than those of this Python do not need them."""
    has = machine.software
    python = f"Python {has.python}"
    if has.jax is None or has.jaxlib is None:
        missing = "jax" if has.jax is None else "jaxlib"
        text = f"{missing} is not installed for this {python}, so the workloads cannot be trained."
        yield Check("jax", "warning", text, "Run: pip install 'nsysoffload[workloads]'")
        return
    if offload and has.jax in WRONG_GRADIENTS:
        yield Check(
            "jax",
            "problem",
            f"jax {has.jax} returns wrong gradients, without a warning, for a scan that offloads "
            "(openxla/xla#46231).",
            "Install another release, 0.11.1 or later.",
        )
    else:
        yield Check("jax", "ok", f"{python} has jax {has.jax}, jaxlib {has.jaxlib}.")
    yield _plugin(machine)


def _plugin(machine: Machine) -> Check:
    has = machine.software
    name = has.plugin or "jax-cuda13-plugin"
    extra = "cuda12" if "cuda12" in name else "cuda13"
    remedy = f"Run: pip install 'jax[{extra}]=={has.jax}'"
    if has.plugin is None:
        text = "jax has no CUDA plugin here, so the workloads run on the CPU alone."
        return Check("plugin", "warning", text, remedy)
    versions = {"plugin": has.plugin_version, "pjrt": has.pjrt_version}
    for kind, version in versions.items():
        package = name.replace("plugin", kind)
        if version is None:
            return Check("plugin", "warning", f"{name} lacks {package}.", remedy)
        if version != has.jaxlib:
            text = f"{package} {version} does not fit jaxlib {has.jaxlib}, so jax will not use it."
            return Check("plugin", "warning", text, remedy)
    return Check("plugin", "ok", f"{name} {has.plugin_version} fits.")
