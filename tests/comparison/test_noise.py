from collections import Counter
from itertools import accumulate, product
from statistics import median_high, median_low

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoffload.comparison.noise import RULE, TAIL, Noise, beyond, noise

STEPS = st.lists(st.integers(1, 10**6).map(float), min_size=2, max_size=12)


def brute_force(base, new):
    """All resamples there are, each as likely as the other; of two in the middle, each by half."""
    medians = [
        [
            middle
            for sample in product(values, repeat=len(values))
            for middle in (median_low(sample), median_high(sample))
        ]
        for values in (base, new)
    ]
    differences = sorted(Counter(n - b for b in medians[0] for n in medians[1]).items())
    least = TAIL * len(medians[0]) * len(medians[1])
    return first_from(differences, least), first_from(differences[::-1], least)


def first_from(differences, least):
    """The first difference up to which there are so many."""
    counted = accumulate(count for _, count in differences)
    return next(d for (d, _), so_far in zip(differences, counted, strict=True) if so_far >= least)


@pytest.mark.parametrize(
    ("base", "new"),
    [
        pytest.param([100, 110], [90, 95], id="two-steps"),
        pytest.param([100, 101, 130], [90, 99, 104], id="three-steps"),
        pytest.param([100, 101, 101, 103], [100, 102, 107], id="four-and-three"),
        pytest.param([90, 91, 92, 95, 97], [80, 85, 88, 89], id="five-and-four"),
    ],
)
def test_the_interval_is_that_of_all_resamples(base, new):
    found = noise(np.array(base, float), np.array(new, float))
    assert (found.low, found.high) == brute_force(base, new)


@given(STEPS, STEPS)
def test_swapped_runs_have_the_mirrored_interval(base, new):
    found, mirrored = noise(np.array(base), np.array(new)), noise(np.array(new), np.array(base))
    assert (found.low, found.high) == (-mirrored.high, -mirrored.low)


def test_a_thousand_steps_have_a_narrow_interval():
    steps = np.arange(1000, dtype=float)
    found = noise(steps, steps + 100)
    # The deviation of a median is that of a rank, about half the root of 1,000, on either side.
    assert 100 - found.low == pytest.approx(found.high - 100)
    assert 2 * (2 * 1000**0.5 / 2) ** 0.5 < found.high - 100 < 60


@given(STEPS, STEPS)
def test_the_interval_lies_within_what_steps_can_differ_by(base, new):
    found = noise(np.array(base), np.array(new))
    assert min(new) - max(base) <= found.low <= found.high <= max(new) - min(base)
    assert found.steps == min(len(base), len(new))


@given(STEPS)
def test_a_run_does_not_differ_from_itself(steps):
    values = np.array(steps)
    assert beyond(noise(values, values), 0.0, 0.0) is False


def test_chance_seldom_passes_for_a_difference():
    draw = np.random.default_rng(7)
    found = 0
    for _ in range(200):
        base, new = draw.normal(100, 3, (2, 8))
        change = float(np.median(new) - np.median(base))
        found += beyond(noise(base, new), change, change / 100) is True
    assert found <= 20  # 5 % of 200 are 10


def test_a_shift_of_three_deviations_is_seen():
    draw = np.random.default_rng(7)
    base, new = draw.normal(100, 1, 8), draw.normal(97, 1, 8)
    change = float(np.median(new) - np.median(base))
    assert beyond(noise(base, new), change, change / 100) is True


@pytest.mark.parametrize(
    ("low", "high", "steps", "relative", "counts"),
    [
        pytest.param(-3.0, -1.0, 5, -0.02, True, id="a-change"),
        pytest.param(-3.0, 0.0, 5, -0.02, False, id="0-is-in-the-interval"),
        pytest.param(-0.4, -0.2, 5, -0.003, False, id="too-small"),
        pytest.param(-0.6, -0.4, 5, -0.005, True, id="just-large-enough"),
        pytest.param(-3.0, -1.0, 3, -0.02, False, id="too-small-for-few-steps"),
        pytest.param(-7.0, -5.0, 3, -0.06, True, id="large-enough-for-few-steps"),
        pytest.param(1.0, 2.0, 5, None, True, id="of-nothing"),
    ],
)
def test_a_change_counts_by_the_rule(low, high, steps, relative, counts):
    assert beyond(Noise(low, high, steps), (low + high) / 2, relative) is counts


def test_one_step_cannot_tell():
    assert noise(np.array([100.0]), np.array([90.0, 91.0])) is None
    assert beyond(None, -10.0, -0.1) is None


def test_the_rule_is_told_with_its_numbers():
    for number in ("95 %", "0.5 %", "fewer than 4", "5 %"):
        assert number in RULE
