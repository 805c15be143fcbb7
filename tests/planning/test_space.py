from dataclasses import replace

import numpy as np
import pytest

from nsysoffload.errors import UsageError
from nsysoffload.planning.space import space
from tests.planning.programs import REQUEST
from workloads.config import MODELS
from workloads.names import named_bytes, names
from workloads.placement import placement
from workloads.recompute import recompute_under

SOME = ("layer_input", "key", "mlp_gate")
TINY = MODELS["tiny"]


def rows(made):
    return {made.policy(row): row for row in range(len(made))}


def test_a_layers_input_has_two_places_and_any_other_name_three():
    made = space(REQUEST, SOME)
    assert len(made) == len(rows(made)) == 2 * 3 * 3
    assert made.policy(0) == "remat"
    assert "offload:layer_input+save:key,mlp_gate" in rows(made)
    assert not any("save:layer_input" in policy for policy in rows(made))
    assert not made.is_whole


def test_all_names_are_placed_where_none_are_chosen():
    made = space(REQUEST)
    assert made.names == names(TINY)
    assert (len(made), made.is_whole) == (2 * 3**6, True)


def test_names_stand_in_the_order_of_the_model():
    assert space(REQUEST, ["mlp_gate", "key"]).names == ("key", "mlp_gate")


def test_bytes_and_operations_are_those_of_the_formulas():
    made = space(REQUEST, SOME)
    sizes = {name: size.total for name, size in named_bytes(TINY, 2, 1024).items()}
    for policy, row in rows(made).items():
        places = placement(policy, SOME) if policy != "remat" else placement("save:key", SOME)
        if policy == "remat":
            assert (made.device_bytes[row], made.host_bytes[row]) == (0, 0)
        else:
            kept = sum(sizes[name] for name in places.saved)
            freed = sizes["layer_input"] if "layer_input" in places.offloaded else 0
            assert made.device_bytes[row] == kept - freed
            assert made.host_bytes[row] == sum(sizes[name] for name in places.offloaded)
        assert made.recompute_flops[row] == recompute_under(policy, TINY, 2, 1024)


def test_bytes_are_those_of_one_device():
    from dataclasses import replace

    whole = space(REQUEST, SOME)
    parts = space(replace(REQUEST, mesh="fsdp=2"), SOME)
    assert (2 * parts.name_bytes == whole.name_bytes).all()
    assert np.array_equal(parts.recompute_flops, whole.recompute_flops)


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        (["mlp_down"], "The model names no value 'mlp_down'; choose from layer_input, "),
        ([""], "A name is empty; write NAME,NAME."),
        ([], "There is no name to place; give at least one, or leave the choice open."),
    ],
)
def test_names_that_make_no_sense_are_refused(chosen, sentence):
    with pytest.raises(UsageError) as error:
        space(REQUEST, chosen)
    assert str(error.value).startswith(sentence)


def test_values_beyond_all_computers_are_refused():
    with pytest.raises(UsageError, match="beyond all computers; ask for a smaller --batch"):
        space(replace(REQUEST, batch=10**18))
