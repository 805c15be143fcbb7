import jax
import pytest
from jax.profiler import ProfileData

from nsysoffload.errors import UsageError
from workloads.jax_profile import JaxProfile, check_alone

pytest.importorskip("nvtx", reason="ranges need nvtx: install nsysoffload[workloads]")

from workloads import loop  # noqa: E402  needs nvtx


def test_the_chosen_steps_are_in_the_profile(tmp_path):
    def step(state, tokens):
        return state + 1, {"loss": state, "grad_norm": tokens}

    plan = loop.plan(5, 1, "2..3", ahead=False)
    loop.run(jax.jit(step), 0.0, jax.numpy.float32, plan, JaxProfile(tmp_path), lambda record: None)
    (path,) = (tmp_path / "plugins" / "profile").glob("*/*.xplane.pb")
    planes = ProfileData.from_file(str(path)).planes
    names = [event.name for plane in planes for line in plane.lines for event in line.events]
    assert [names.count(name) for name in ("train_step", "data", "dispatch", "wait")] == [2] * 4
    assert not any(name.startswith("$") for name in names)  # as the tracer of Python marks its own


@pytest.mark.parametrize("name", ["CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID"])
def test_under_nsys_the_profiler_of_jax_is_refused(name):
    with pytest.raises(UsageError) as error:
        check_alone({"PATH": "/bin", name: "4711"})
    assert str(error.value) == (
        f"{name} shows that nsys profiles this process, and jax.profiler cannot do so at the same "
        "time; leave out --jax-profile, or nsys."
    )


def test_without_nsys_it_is_not():
    check_alone({"PATH": "/bin", "CUDA_INJECTION64_PATH": ""})
