import pytest

from nsysoffload.recorders.measured.child import Ended
from nsysoffload.recorders.measured.failures import blinding, cause_of

SIGNS = {
    "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED": "cupti_user",
    "function cuptiSubscribe failed with error 39": "cupti_user",
    "E0000 parse_flags_from_env.cc:233] Unknown flag in XLA_FLAGS: --xla_nope=1": "xla_flag",
    "Allocator (xla_gpu_host_bfc) ran out of memory trying to allocate 16.00GiB": "host_pool",
    "RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes in xla_gpu_host_bfc": "host_pool",
    "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB": "device_memory",
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.": "device_memory",
    "failed call to cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY": "device_memory",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0": "memory_limit",
    "OSError: [Errno 28] No space left on device": "disk_full",
    "usage: nsys profile [<args>] [application] [<application args>]": "nsys_options",
    "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES": "permission",
    "RuntimeError: Unable to initialize backend 'cuda': no device": "no_gpu",
    "Analysis failed: GetNumTpcs NotInitializedException": "hardware_trace",
}


@pytest.mark.parametrize(("line", "cause"), SIGNS.items(), ids=SIGNS.values())
def test_a_cause_is_read_from_the_line_that_shows_it(line, cause):
    failure = cause_of(Ended(1, 2.0, printed=f"starting\n  {line}\nended\n"))
    assert failure
    assert (failure.cause, failure.lines) == (cause, (line,))


def test_a_host_pool_is_not_mistaken_for_the_device_that_also_complains():
    printed = (
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.\n"
        "Allocator (xla_gpu_host_bfc) ran out of memory trying to allocate 9B\n"
    )
    failure = cause_of(Ended(1, 2.0, printed=printed))
    assert failure
    assert failure.cause == "host_pool"
    assert "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB" in failure.text


@pytest.mark.parametrize(
    ("ended", "cause"),
    [
        (Ended(137, 1.0, printed="working\n"), "memory_limit"),
        (Ended(143, 1.0, "timeout", "working\n"), "timeout"),
        (Ended(42, 1.0, printed="working\n"), "command_failed"),
    ],
)
def test_without_a_word_the_way_it_ended_tells(ended, cause):
    failure = cause_of(ended)
    assert failure
    assert (failure.cause, failure.lines) == (cause, ("working",))


@pytest.mark.parametrize("ended", [Ended(0, 1.0), Ended(143, 1.0, "hung")])
def test_a_command_that_ended_well_has_no_cause(ended):
    assert cause_of(ended) is None


def test_what_blinds_a_profiler_is_not_what_a_program_complains_of():
    assert blinding("RESOURCE_EXHAUSTED: tried again with less") is None
    failure = blinding("cupti: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")
    assert failure
    assert failure.cause == "cupti_user"


def test_lines_are_few_and_short():
    failure = cause_of(Ended(1, 1.0, printed=f"No space left on device {'x' * 999}\n" * 9))
    assert failure
    assert [len(line) for line in failure.lines] == [300] * 3
