from dataclasses import replace

import pytest

from nsysoffload.comparison.ranking import Order, ranking
from nsysoffload.trace.prediction import Corner
from tests.report.examples import PREDICTION


def predicted(*steps_ns):
    names = ("expected", "slow", "fast")
    corners = (Corner(name, ns, 0, 0) for name, ns in zip(names, steps_ns, strict=True))
    return replace(PREDICTION, corners=tuple(corners))


@pytest.mark.parametrize(
    ("base", "run", "order", "changes"),
    [
        pytest.param(
            (100, 200, 50), (90, 150, 49), Order.FASTER, (-0.1, -0.25, -0.02), id="faster"
        ),
        pytest.param((100, 200, 50), (120, 200, 60), Order.SLOWER, (0.2, 0, 0.2), id="slower"),
        pytest.param((100, 200, 50), (100, 200, 50), Order.SAME, (0, 0, 0), id="same"),
        pytest.param(
            (100, 200, 50), (90, 202, 40), Order.CANNOT_TELL, (-0.1, -0.2, 0.01), id="turns-around"
        ),
    ],
)
def test_runs_are_ranked_choice_by_choice(base, run, order, changes):
    found = ranking(predicted(*base), predicted(*run))
    assert found.order is order
    assert (found.expected, found.low, found.high) == pytest.approx(changes)


def test_ranges_that_overlap_do_not_hide_a_ranking_that_holds_for_every_choice():
    base, run = predicted(100, 300, 50), predicted(90, 290, 49)
    assert ranking(base, run).order is Order.FASTER


def test_runs_with_other_constants_are_not_ranked():
    other = replace(PREDICTION, constants=(replace(PREDICTION.constants[0], high=0.9),))
    with pytest.raises(ValueError, match="different constants"):
        ranking(PREDICTION, other)
    with pytest.raises(ValueError, match="different constants"):
        ranking(PREDICTION, replace(PREDICTION, corners=PREDICTION.corners[:1]))
