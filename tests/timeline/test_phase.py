import pytest

from nsysoffload.timeline.phase import PHASES, phase_of


@pytest.mark.parametrize(
    ("op_name", "phase"),
    [
        pytest.param("jit(step)/jvp()/while/body/dot_general", "forward", id="forward"),
        pytest.param("jit(step)/jvp(Llama)/while/body/mlp/dot_general", "forward", id="named"),
        pytest.param(
            "jit(step)/transpose(jvp())/while/body/checkpoint/dot_general",
            "backward",
            id="backward",
        ),
        pytest.param(
            "jit(step)/transpose(jvp())/while/body/eval_jaxpr/checkpoint/rematted_computation/dot",
            "recompute",
            id="recompute",
        ),
        pytest.param("jit(step)/rematted_computation/dot", "recompute", id="recompute-alone"),
        pytest.param("jit(step)/adam/mul", "other", id="optimizer"),
        pytest.param("jit(step)/transpose(x)/dot", "other", id="transposed-array"),
        pytest.param("", "other", id="unnamed"),
    ],
)
def test_the_phase_follows_from_the_name_that_jax_gives(op_name, phase):
    assert phase_of(op_name) == phase
    assert phase in PHASES
