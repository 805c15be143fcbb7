import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoffload.planning.model import Limits
from nsysoffload.planning.search import search
from nsysoffload.planning.space import space
from tests.planning.programs import REQUEST, Figures, prediction

NAMES = ("layer_input", "key", "mlp_gate", "mlp_up")
SPACE = space(REQUEST, NAMES)
POLICIES = [SPACE.policy(row) for row in range(len(SPACE))]
STEP, DEVICE = 1_000_000, 10**9


def world(kept_ns, offloaded_ns):
    """Predictions of all placements, where each name changes the step by itself."""
    steps = STEP + SPACE.kept @ np.array(kept_ns) + SPACE.offloaded @ np.array(offloaded_ns)
    return {
        policy: prediction(
            policy,
            Figures(
                int(steps[row]), int(DEVICE + SPACE.device_bytes[row]), int(SPACE.host_bytes[row])
            ),
        )
        for row, policy in enumerate(POLICIES)
    }


def searched(every, limits, compiles=8):
    asked = []

    def compiled(policies):
        asked.extend(policies)
        return {policy: every[policy] for policy in policies if policy in every}

    found = search(SPACE, limits, compiled, {"remat": every["remat"]}, compiles)
    return asked, {"remat": every["remat"], **found}


def best_of(predictions, limits):
    fitting = [p for p in predictions if limits.admit(p)]
    return min((p.step.expected_ns for p in fitting), default=None)


# A gain of each kept name, and a loss of each offloaded one, as a roofline would have it.
PLAIN = world([0, -20_000, -60_000, -60_000], [5_000, 4_000, 50_000, 50_000])
SIZES = dict(zip(NAMES, SPACE.name_bytes.tolist(), strict=True))


@pytest.mark.parametrize(
    "room",
    [0, SIZES["key"], SIZES["mlp_gate"], SIZES["mlp_gate"] + SIZES["key"], sum(SIZES.values())],
)
def test_the_fastest_of_all_that_fit_is_found(room):
    limits = Limits(DEVICE + room, 10**12)
    asked, found = searched(PLAIN, limits)
    assert best_of(found.values(), limits) == best_of(PLAIN.values(), limits)
    assert len(asked) == len(set(asked)) <= 8


def test_what_frees_the_device_is_found_where_rematerialising_does_not_fit():
    limits = Limits(DEVICE - SIZES["layer_input"] // 2, 10**12)
    _, found = searched(PLAIN, limits)
    assert best_of(found.values(), limits) == best_of(PLAIN.values(), limits)


@given(
    kept=st.lists(st.integers(-100_000, 50_000), min_size=4, max_size=4),
    offloaded=st.lists(st.integers(-100_000, 200_000), min_size=4, max_size=4),
    room=st.integers(-SIZES["layer_input"], sum(SIZES.values())),
)
def test_no_search_is_worse_than_rematerialising_or_compiles_too_much(kept, offloaded, room):
    every = world(kept, offloaded)
    limits = Limits(DEVICE + room, 10**12)
    asked, found = searched(every, limits, compiles=6)
    assert len(asked) == len(set(asked)) <= 6
    best = best_of(found.values(), limits)
    assert best is None or room < 0 or best <= every["remat"].step.expected_ns


FACTORS = st.lists(st.floats(0, 2), min_size=4, max_size=4)
FLOP_NS = STEP / (SPACE.model_flops + SPACE.recompute_flops[0])
WORTH_NS = FLOP_NS * SPACE.name_flops


@given(kept=FACTORS, offloaded=FACTORS, room=st.integers(0, sum(SIZES.values())))
def test_names_that_are_worth_about_what_they_cost_are_placed_as_well_as_can_be(
    kept, offloaded, room
):
    # Kept, a name spares up to twice its operations; offloaded, it costs up to as much again.
    every = world(-np.array(kept) * WORTH_NS, (np.array(offloaded) - 1) * WORTH_NS)
    limits = Limits(DEVICE + room, 10**12)
    _, found = searched(every, limits, compiles=len(SPACE))
    best, truly = best_of(found.values(), limits), best_of(every.values(), limits)
    assert best <= 1.01 * truly


def test_a_host_limit_keeps_offloading_away():
    limits = Limits(DEVICE + 1, 1)
    asked, _ = searched(world([0] * 4, [-50_000] * 4), limits)
    assert not any("offload" in policy for policy in asked)


def test_nothing_is_compiled_where_nothing_may_be():
    assert searched(PLAIN, Limits(2 * DEVICE, 10**12), compiles=0)[0] == []


def test_where_nothing_can_fit_what_needs_least_is_looked_at_once():
    asked, _ = searched(PLAIN, Limits(DEVICE // 2, 10**12))
    assert asked == ["offload:layer_input"]


def test_a_policy_that_cannot_be_compiled_is_not_tried_again():
    broken = {
        policy: made for policy, made in PLAIN.items() if policy != "save:key,mlp_gate,mlp_up"
    }
    limits = Limits(DEVICE + sum(SIZES.values()), 10**12)
    asked, found = searched(broken, limits)
    assert len(asked) == len(set(asked))
    assert best_of(found.values(), limits) == best_of(broken.values(), limits)
