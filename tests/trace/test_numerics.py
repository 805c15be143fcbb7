import pytest

from nsysoffload.trace.numerics import (
    Curve,
    Losses,
    Numerics,
    StepLine,
    compare,
    from_log,
    from_manifest,
    step_lines,
)


def losses(*values, norms=(), unit=0.0):
    return Losses(Curve(dict(enumerate(values)), unit), Curve(dict(enumerate(norms))))


def test_the_first_step_that_differs_is_named():
    remat, offload = losses(2.31, 2.10, 1.97), losses(2.31, 2.24, 2.19)
    assert compare(remat, offload, 1e-3) == Numerics(
        False, "numerics differ from step 2 of 3 (index 1): loss 2.24 instead of 2.1"
    )


def test_equal_runs_agree():
    run = losses(2.31, 2.10, 1.97, norms=(1.5, 1.4, 1.3))
    assert compare(run, run) == Numerics(True, "numerics agree over 3 steps")
    assert compare(losses(2.0), losses(2.0)).text == "numerics agree over 1 step"


@pytest.mark.parametrize(
    ("other", "agree"),
    [
        pytest.param(losses(2.0019), True, id="rounding"),
        pytest.param(losses(2.0021), False, id="more than rounding"),
        pytest.param(losses(1.9979), False, id="less"),
        pytest.param(losses(2.0, norms=(1.009,)), True, id="rounding of a norm"),
        pytest.param(losses(2.0, norms=(1.011,)), False, id="more than that of a norm"),
        pytest.param(losses(2.0), True, id="norms unknown"),
    ],
)
def test_losses_may_differ_by_a_thousandth_and_norms_by_a_hundredth(other, agree):
    assert compare(losses(2.0, norms=(1.0,)), other).agree is agree


def test_a_gradient_norm_that_differs_is_told_after_the_loss_of_its_step():
    base, other = losses(2.0, 1.9, norms=(1.0, 1.0)), losses(2.0, 1.9, norms=(1.0, 1.5))
    assert compare(base, other).text == (
        "numerics differ from step 2 of 2 (index 1): gradient norm 1.5 instead of 1"
    )


def test_of_runs_of_different_length_the_common_steps_are_compared():
    assert compare(losses(2.0, 1.9), losses(2.0)) == Numerics(True, "numerics agree over 1 step")


def test_steps_are_matched_by_their_index():
    base = Losses(Curve({0: 3.0, 1: 2.0, 2: 1.0}), Curve({}))
    late = Losses(Curve({2: 1.5, 3: 0.5}), Curve({}))
    assert compare(base, late).text.startswith("numerics differ from step 1 of 1 (index 2): ")


def test_what_is_not_finite_in_one_run_alone_differs():
    assert compare(losses(2.0), losses(None)).text.endswith("loss not finite instead of 2")
    assert compare(losses(None), losses(2.0)).text.endswith("loss 2 instead of not finite")


def test_what_is_not_finite_in_both_agrees_and_is_noted():
    run = losses(2.0, None, None)
    assert compare(run, run) == Numerics(
        True, "numerics agree over 3 steps, but from index 1 on losses are not finite"
    )


@pytest.mark.parametrize("other", [losses(), Losses(Curve({7: 1.0}), Curve({}))])
def test_without_a_common_step_it_is_not_known_whether_runs_agree(other):
    assert compare(losses(2.0), other) == Numerics(
        None, "there are no losses to compare, so it is not known if they agree"
    )


def test_a_manifest_tells_losses_and_norms():
    steps = [{"index": 0, "loss": 2.5, "grad_norm": 1.0}, {"index": 1, "loss": None}]
    steps[1]["grad_norm"] = None
    assert from_manifest({"steps": steps}) == losses(2.5, None, norms=(1.0, None))
    assert from_manifest({}) == losses()


WORKLOAD = """
Compiling tiny, policy offload, for 1 x cpu.
step    0  loss 6.2383  grad norm 2.1000  204.75 ms  warm-up
step   10  loss not finite  grad norm not finite  104.75 ms
"""
MAXTEXT = """
completed step: 0, seconds: 35.1, TFLOP/s/device: 0.3, Tokens/s/device: 9, total_weights: 65536, \
loss: 10.888, lm_loss: 10.8, perplexity: 53526.1, moe_lb_loss: 0.1
[Rampup Batch Size Phase], completed step: 1, seconds: 2.5, total_weights: 65536, loss: 9.5
completed profiler activation/deactivation step: 2, total_weights: 65536, loss: nan, lm_loss: 0.000
Completed eval step: 3, seconds: 0.250, running loss=9.250, running perplexity=1.0
Completed eval after train step 4, loss=9.250, perplexity=1.0
To see full metrics 'tensorboard --logdir=logs'
"""


@pytest.mark.parametrize(
    ("log", "steps"),
    [
        pytest.param(
            WORKLOAD,
            [StepLine(0, 6.2383, 2.1, 204.75), StepLine(10, None, None, 104.75)],
            id="workloads",
        ),
        pytest.param(
            MAXTEXT,
            [
                StepLine(0, 10.888, None, 35100.0),
                StepLine(1, 9.5, None, 2500.0),
                StepLine(2, None, None, None),
            ],
            id="maxtext",
        ),
        pytest.param(
            "step 3: loss = 1.5e+01, grad_norm = 2", [StepLine(3, 15.0, 2.0, None)], id="equals"
        ),
        pytest.param(
            "{'global_step': 7, 'train/loss': 2.5, 'gradient_norm': inf}",
            [StepLine(7, 2.5, None, None)],
            id="dictionary",
        ),
        pytest.param("[Step 12/100] Loss: -0.25", [StepLine(12, -0.25, None, None)], id="of"),
        pytest.param(
            "step 1 loss 2.0\nstep 1 loss 3.0", [StepLine(1, 3.0, None, None)], id="twice"
        ),
        pytest.param("step 1 aux_loss 2.0\nloss 3.0\nsteps 4\nstepsize 3 loss 1", [], id="none"),
    ],
)
def test_lines_on_steps_are_read(log, steps):
    assert step_lines(log) == steps


def test_losses_of_a_log_may_differ_by_their_last_digit():
    # 0.012 and 0.013 may both be 0.0125: 8 % apart as printed
    base = from_log("step 0 loss 0.012\nstep 1 loss 0.500")
    assert base.loss == Curve({0: 0.012, 1: 0.5}, 0.001)
    assert compare(base, from_log("step 0 loss 0.013\nstep 1 loss 0.500")).agree is True
    assert compare(base, from_log("step 0 loss 0.014\nstep 1 loss 0.500")).agree is False


def test_norms_of_a_log_are_known_only_if_it_tells_one():
    assert from_log("step 0 loss 2.5").grad_norm == Curve({})
    assert from_log(WORKLOAD).grad_norm == Curve({0: 2.1, 10: None}, 0.1)
    assert from_log("") == losses()
