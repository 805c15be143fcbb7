"""Faults that the simulator plants: the planted cause comes first, at what it truly costs."""

import pytest

import nsysoffload
from nsysoffload.recorders.predict.faults import Setting, matrix
from nsysoffload.trace.writer import write

TRUTH = 0.02
NOISE = 0.05


@pytest.mark.parametrize("setting", matrix(), ids=str)
def test_the_planted_cause_comes_first_with_its_true_cost(setting: Setting, tmp_path):
    planted = setting.plant()
    write(planted.trace, tmp_path / "trace.sqlite")
    report = nsysoffload.analyze(tmp_path / "trace.sqlite")
    costs: dict[str, int] = {}
    for finding in report.findings:
        cost = finding.lost_ns_per_step + finding.excess_ns_per_step
        costs[finding.cause] = costs.get(finding.cause, 0) + cost
    assert report.findings[0].cause == planted.cause
    kind = {"lost": "lost_ns_per_step", "excess": "excess_ns_per_step"}[planted.kind]
    found = sum(getattr(f, kind) for f in report.findings if f.cause == planted.cause)
    assert abs(found - planted.cost_ns_per_step) <= TRUTH * planted.cost_ns_per_step
    others = {cause: cost for cause, cost in costs.items() if cause != planted.cause}
    assert all(cost <= NOISE * planted.cost_ns_per_step for cost in others.values()), others
