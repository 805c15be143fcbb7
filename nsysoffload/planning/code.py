"""The best plan as text to paste: the policy, the flags, the environment, and how to record it."""

import math
import shlex
from collections.abc import Mapping, Sequence

from nsysoffload.hardware import TARGETS
from nsysoffload.planning.model import Candidate, Plan
from nsysoffload.recorders.flags import run_flags
from nsysoffload.recorders.predict.capture import Request
from workloads.config import model
from workloads.names import names
from workloads.placement import Placement, is_placement, placement

__all__ = ["capture_command", "environment", "policy_code"]

_FIXED = {
    "remat": "nothing_saveable",
    "dots": "dots_with_no_batch_dims_saveable",
    "offload-dots": 'offload_dot_with_no_batch_dims("device", "pinned_host")',
}
_APPLIED = "layer = jax.checkpoint(layer, policy=policy, prevent_cse=False)  # in jax.lax.scan"
_ATTENTION = (
    "# attention_out: cuDNN's attention leaves its output and softmax statistics, and only both",
    "# spare a second run. No name reaches the statistics; workloads/policies.py shows how to.",
)


def policy_code(policy: str, request: Request) -> str:
    """Return the lines of Python that apply a policy to a layer.

    Parameters
    ----------
    policy : str
        See `workloads.policies`.
    request : Request
        What is trained, for the names that policy ``offload`` stands for.
    """
    if policy == "none":
        return "# The layer as it is, without jax.checkpoint: everything is kept."
    if policy in _FIXED:
        return f"policy = jax.checkpoint_policies.{_FIXED[policy]}\n{_APPLIED}"
    places = _places(policy, names(model(request.model, request.layers)))
    lines = [
        "policy = jax.checkpoint_policies.save_and_offload_only_these_names(",
        f"    names_which_can_be_saved={_listed(places.saved)},",
        f"    names_which_can_be_offloaded={_listed(places.offloaded)},",
        '    offload_src="device",',
        '    offload_dst="pinned_host",',
        ")",
        _APPLIED,
    ]
    return "\n".join([*(_ATTENTION if "attention_out" in places.found else ()), *lines])


def _places(policy: str, known: tuple[str, ...]) -> Placement:
    return placement(policy, known) if is_placement(policy) else Placement(offloaded=known)


def _listed(chosen: Sequence[str]) -> str:
    return f"[{', '.join(f'"{name}"' for name in chosen)}]"


def environment(plan: Plan, candidate: Candidate) -> dict[str, str]:
    """Return the variables that a run on GPUs needs: flags, and memory beyond JAX's defaults.

    Parameters
    ----------
    plan : Plan
        What was asked for.
    candidate : Candidate
        One of its candidates, compiled.
    """
    flags = run_flags(candidate.preset, extra=candidate.flags)
    found: dict[str, str] = {"XLA_FLAGS": " ".join(flags)} if flags else {}
    memory = candidate.prediction.memory if candidate.prediction else None
    if memory is None:
        return found
    if memory.device_bytes > memory.default_limit_bytes:
        share = memory.device_bytes / TARGETS[plan.request.target].memory_bytes
        found["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{math.ceil(100 * share) / 100:.2f}"
    if memory.host_bytes > memory.host_limit_bytes:
        found["XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB"] = str(math.ceil(memory.host_bytes / 2**30))
    return found


def capture_command(plan: Plan, candidate: Candidate) -> str:
    """Return the command line that records the candidate on GPUs.

    Parameters
    ----------
    plan : Plan
        What was asked for.
    candidate : Candidate
        One of its candidates.
    """
    request = plan.request
    given: Mapping[str, object] = {
        "--model": request.model,
        "--mesh": request.mesh,
        "--batch": request.batch,
        "--seq": request.seq,
        "--layers": request.layers,
        "--optimizer": "" if request.optimizer == "adam" else request.optimizer,
        "--variant": candidate.policy,
        "--xla-preset": "" if candidate.preset == "default" else candidate.preset,
        "--xla-flags": candidate.flags,
    }
    words = [word for name, value in given.items() if value for word in (name, str(value))]
    switch = ["--offload-optimizer"] if request.offload_optimizer else []
    return shlex.join(["nsysoffload", "capture", *words, *switch])
