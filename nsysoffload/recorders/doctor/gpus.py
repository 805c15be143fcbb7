"""Checks of GPUs: seen, split, and who may read their counters."""

from collections.abc import Iterator, Sequence

from nsysoffload.recorders.doctor.check import Check
from nsysoffload.recorders.machine.gpus import Gpu
from nsysoffload.recorders.machine.survey import Machine
from nsysoffload.recorders.nsys.tool import Nsys

__all__ = ["gpu_check", "mig_checks", "permission_checks"]


def gpu_check(machine: Machine) -> Check:
    """Say which GPUs a program started here will use."""
    driver = f", driver {machine.driver}" if machine.driver else ""
    if machine.chosen:
        return Check("gpu", "ok", f"{_counted(machine.chosen)}{driver}.")
    if machine.gpus:
        text = f"CUDA_VISIBLE_DEVICES hides all of {_counted(machine.gpus)}{driver}."
        return Check("gpu", "warning", text, "Set it to the GPUs to use, or unset it.")
    seen = f"though driver {machine.driver} is there" if machine.driver else "nor a driver for one"
    return Check(
        "gpu",
        "warning",
        f"No GPU can be seen, {seen}.",
        "Run it where there is one; containers need --gpus all or --nv, a job has to ask for one.",
    )


def _counted(gpus: Sequence[Gpu]) -> str:
    """Name GPUs by model, with their number.

    Examples
    --------
    >>> _counted([Gpu("0000:01:00.0", "", "NVIDIA H200", 0, False)] * 2)
    '2 x NVIDIA H200'
    """
    models = [gpu.model or "unnamed GPU" for gpu in gpus]
    return ", ".join(f"{models.count(model)} x {model}" for model in dict.fromkeys(models))


def mig_checks(gpus: Sequence[Gpu], nsys: Nsys | None) -> Iterator[Check]:
    """Warn of GPUs that are split, which nsys can trace by software only."""
    if not any(gpu.mig for gpu in gpus):
        return
    by_software = nsys is not None and nsys.offers("--trace", "cuda-sw")
    yield Check(
        "mig",
        "warning",
        "A GPU is split by MIG: its parts share the link to the host, and it cannot be traced by "
        "hardware.",
        "Record with --nsys-args '-t cuda-sw,nvtx'." if by_software else "",
    )


def permission_checks(machine: Machine) -> Iterator[Check]:
    """Say who may read GPU counters, and that tracing reads none."""
    if machine.profiling_restricted is None:
        return
    text = (
        "Only administrators may read GPU counters, so others cannot record GPU metrics "
        "(--gpu-metrics-devices); kernels, copies and calls are traced without them."
        if machine.profiling_restricted
        else "All users may read GPU counters; kernels, copies and calls are traced without them."
    )
    yield Check("permission", "ok", text)
