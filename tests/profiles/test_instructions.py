import pytest

from nsysoffload.errors import OffloadError, UsageError
from nsysoffload.profiles.distances import Distance, distances
from nsysoffload.profiles.instructions import Costed, Role, instructions
from tests.profiles.modules import DUMPED, FINGERPRINT, PRINTED

ALL = (
    Costed("loop_add_fusion.1", Role.COMPUTE, ""),
    Costed("wrapped_dynamic-slice", Role.H2D, "while.5"),
    Costed("wrapped_dynamic-slice.1", Role.H2D, "while.5"),
    Costed("loop_add_fusion", Role.COMPUTE, "while.5"),
    Costed("all-gather-start.3", Role.COLLECTIVE, "while.5"),
)


@pytest.mark.parametrize(
    "text", [pytest.param(PRINTED, id="printed"), pytest.param(DUMPED, id="dumped")]
)
def test_what_takes_time_has_the_name_that_the_scheduler_looks_for(text):
    module = instructions(text)
    assert (module.module, module.fingerprint, module.devices) == ("jit_step", FINGERPRINT, 2)
    assert module.all == ALL


@pytest.mark.parametrize(
    ("text", "of_copies"),
    [
        pytest.param(PRINTED, "dynamic-slice-start.7 wrapped_dynamic-slice.1", id="printed"),
        pytest.param(DUMPED, "dynamic-slice-start.7 wrapped_dynamic-slice.1", id="dumped"),
    ],
)
def test_a_trace_may_name_an_instruction_or_the_one_within_it(text, of_copies):
    by_name = instructions(text).by_name
    assert {name for name, costed in by_name.items() if costed == ALL[2]} == set(of_copies.split())
    assert by_name["all-gather.81"] == ALL[4]
    assert "dynamic-slice-done" not in by_name


def test_without_a_name_within_the_own_one_serves():
    text = PRINTED.replace("wrapped_dynamic-slice_computation.1", "fused_dynamic_slice.3.clone")
    assert instructions(text).all[2] == Costed("dynamic-slice-start.7", Role.H2D, "while.5")


def test_a_module_that_the_scheduler_has_not_seen_takes_no_profile():
    with pytest.raises(UsageError, match=r"^The text of the module jit_step has no fingerprint"):
        instructions(PRINTED.replace("fingerprint_before_lhs", "other"))


def test_what_is_no_module_is_refused():
    with pytest.raises(OffloadError, match=r"^This is not HLO text"):
        instructions("something else")


@pytest.mark.parametrize("text", [PRINTED, DUMPED])
def test_the_distance_of_a_copy_counts_what_compute_runs_from_its_start_to_its_end(text):
    #  start  start.7  fusion  done  all-gather  done.7
    assert distances(text, instructions(text)) == (
        Distance("wrapped_dynamic-slice", "h2d", "while.5", 1, 0),
        Distance("wrapped_dynamic-slice.1", "h2d", "while.5", 2, 0),
    )
