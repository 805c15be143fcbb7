import pytest

from nsysoffload.errors import UsageError
from workloads.jax_profile import check_alone


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
