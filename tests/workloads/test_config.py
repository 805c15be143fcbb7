import pytest

from nsysoffload.errors import UsageError
from workloads.config import MODELS, Experts, model, parameters


@pytest.mark.parametrize(
    ("name", "published"),
    [
        pytest.param("llama3.1-8b", 8_030_261_248, id="8b"),
        pytest.param("llama3.1-70b", 70_553_706_496, id="70b"),
        pytest.param("llama3.1-405b", 405_853_388_800, id="405b"),
        pytest.param("llama3.2-1b", 1_235_814_400, id="1b"),
        # The published count has a balancing bias per expert, 58 x 256, that is left out here.
        pytest.param("deepseek-v3-671b", 671_026_419_200 - 58 * 256, id="671b"),
    ],
)
def test_models_have_the_published_number_of_parameters(name, published):
    assert parameters(MODELS[name]).total == published


def test_a_token_meets_37_billion_parameters_of_deepseek_v3():
    # Published as 37B: 36.6 without the table that is only looked up in, 37.6 with it.
    counted = parameters(MODELS["deepseek-v3-671b"])
    assert counted.active - counted.embedding == 36_625_603_584


def test_all_parameters_of_a_dense_model_are_active():
    counted = parameters(MODELS["llama3.1-8b"])
    assert counted.active == counted.total
    assert counted.embedding == 128256 * 4096


def test_a_model_with_other_layers_keeps_its_widths():
    shorter = model("deepseek-v3-671b", layers=5)
    assert (shorter.dense_layers, shorter.moe_layers, shorter.embed) == (3, 2, 7168)
    assert model("deepseek-v3-671b", layers=2).moe_layers == 0


def test_an_unknown_model_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match=r"^There is no model 'llama'; choose one of llama3.1-8b,"):
        model("llama")


def test_a_model_needs_a_layer():
    with pytest.raises(UsageError, match="needs a layer, not 0"):
        model("tiny", layers=0)


def test_a_model_has_no_more_layers_than_it_has():
    assert model("tiny", layers=4) == model("tiny")
    with pytest.raises(UsageError, match="can only be shrunk; ask for 1 to 4"):
        model("tiny", layers=5)


def test_capacity_is_what_balanced_experts_get_times_the_factor():
    # 16 tokens, 2 choices each, 8 experts: 4 choices per expert
    experts = Experts(count=8, active=2, shared=1, ffw=4, dense_layers=0)
    assert experts.capacity(16) == 4
    assert Experts(8, 2, 1, 4, 0, capacity_factor=1.1).capacity(16) == 5
    assert Experts(8, 2, 1, 4, 0, capacity_factor=99).capacity(16) == 16  # a token comes once
