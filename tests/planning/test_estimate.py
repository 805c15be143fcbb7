import numpy as np
import pytest

from nsysoffload.planning.estimate import estimates
from nsysoffload.planning.space import space
from tests.planning.programs import REQUEST, Figures, prediction

SPACE = space(REQUEST, ("layer_input", "key", "mlp_gate"))
BASE = Figures(step_ns=1_000_000, device_bytes=10**9)
REMAT = prediction("remat", BASE)


def row_of(policy):
    return [SPACE.policy(row) for row in range(len(SPACE))].index(policy)


def test_what_was_compiled_is_known_and_the_rest_is_not():
    figures = estimates(SPACE, {0: REMAT})
    assert (figures.step.mean[0], figures.step.deviation[0]) == (1_000_000, 0)
    assert (figures.step.deviation[1:] > 0).all()
    assert (figures.step.optimistic <= figures.step.mean).all()


def test_at_first_kept_values_spare_their_share_of_the_operations():
    figures = estimates(SPACE, {0: REMAT})
    every = SPACE.model_flops + SPACE.recompute_flops[0]
    saved = SPACE.recompute_flops[0] - SPACE.recompute_flops[row_of("save:mlp_gate")]
    expected = 1_000_000 * (1 - saved / every)
    assert figures.step.mean[row_of("save:mlp_gate")] == pytest.approx(expected)


def test_at_first_memory_is_what_is_kept_on_top():
    figures = estimates(SPACE, {0: REMAT})
    assert np.array_equal(figures.device.mean, 10**9 + SPACE.device_bytes)


def test_what_a_name_showed_is_expected_of_it_elsewhere():
    row, other = row_of("save:mlp_gate"), row_of("save:key,mlp_gate")
    before = estimates(SPACE, {0: REMAT})
    seen = round(before.step.mean[row]) + 20_000
    slow = prediction("save:mlp_gate", Figures(seen, 10**9 + int(SPACE.name_bytes[2])))
    after = estimates(SPACE, {0: REMAT, row: slow})
    assert after.step.mean[row] == pytest.approx(seen, rel=0.01)
    assert 0 < after.step.mean[other] - before.step.mean[other] < 20_000
    assert after.step.deviation[other] < before.step.deviation[other]
    untouched = row_of("save:key")
    assert after.step.mean[untouched] == pytest.approx(before.step.mean[untouched])


def test_copies_are_taken_to_stay_as_exposed_as_those_that_were_seen():
    moved = int(SPACE.host_bytes[-1])
    shares = []
    for exposed_ns in (0, 10, 20):
        seen = prediction("offload", Figures(1_000_000, 10**9, moved, exposed_ns))
        figures = estimates(SPACE, {0: REMAT}, seen)
        shares.append(figures.step.mean[row_of("offload:mlp_gate")])
    assert shares[0] < shares[1] < shares[2]
    assert shares[1] - shares[0] == pytest.approx(shares[2] - shares[1])
