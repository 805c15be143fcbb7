import jax
import pytest

from nsysoffload.errors import UsageError
from nsysoffload.trace.workload import is_offload
from tests.workloads.jaxprs import equations
from workloads.config import MODELS
from workloads.names import named_bytes, names
from workloads.policies import POLICIES, check_version, policy
from workloads.sharding import make_mesh
from workloads.step import build

NAMES = ("layer_input", "query")


def moved_bytes(jaxpr, space):
    """Bytes that a step moves to a memory space."""
    return sum(
        times * out.aval.size * out.aval.dtype.itemsize
        for equation, times in equations(jaxpr)
        if equation.primitive.name == "device_put" and equation.params["devices"][0] == space
        for out in equation.outvars
    )


def traced(model, text, devices):
    step = build(MODELS[model], mesh=make_mesh(devices[:1], {}), policy=text, batch=2, seq=64)
    return step.jitted.trace(step.state, step.tokens).jaxpr.jaxpr


def products(jaxpr):
    """Matrix products that a step runs."""
    named = ((equation.primitive.name, times) for equation, times in equations(jaxpr))
    return sum(times for name, times in named if name == "dot_general")


def primitives(jaxpr):
    return {equation.primitive.name for equation, _ in equations(jaxpr)}


@pytest.mark.parametrize("model", ["tiny", "tiny-moe"])
def test_offload_moves_each_name_out_and_back_once(model, devices):
    jaxpr = traced(model, "offload", devices)
    expected = sum(
        sizes.total for sizes in named_bytes(MODELS[model], 2, 64, attention="xla").values()
    )
    for space in jax.memory.Space.Host, jax.memory.Space.Device:
        assert moved_bytes(jaxpr, space) == expected


@pytest.mark.parametrize("name", names(MODELS["tiny-moe"]))
def test_offloading_one_name_moves_its_bytes_only(name, devices):
    jaxpr = traced("tiny-moe", f"offload:{name}", devices)
    expected = named_bytes(MODELS["tiny-moe"], 2, 64, attention="xla")[name].total
    assert moved_bytes(jaxpr, jax.memory.Space.Host) == expected


def test_no_policy_means_no_checkpoint_and_remat_moves_nothing(devices):
    plain, remat = (primitives(traced("tiny", text, devices)) for text in ("none", "remat"))
    assert "remat2" not in plain
    assert "remat2" in remat
    assert "device_put" not in plain | remat


@pytest.mark.parametrize("text", [*POLICIES, "save:query", "offload:query+save:layer_input"])
def test_every_policy_can_be_asked_for(text):
    assert (policy(text, NAMES) is None) == (text == "none")


@pytest.mark.parametrize("text", ["", "ofload", "save", "remat:query", "dots:"])
def test_an_unknown_policy_is_refused_with_those_there_are(text):
    with pytest.raises(UsageError) as error:
        policy(text, NAMES)
    assert str(error.value) == (
        f"There is no policy '{text}'; choose one of none, remat, dots, offload, offload-dots, "
        "offload:NAME,..., save:NAME,... or both joined by '+', where NAME is one of layer_input, "
        "query."
    )


@pytest.mark.parametrize("text", ["offload:mlp_gate", "save:query,mlp_gate"])
def test_a_name_that_the_model_lacks_is_refused_with_those_it_has(text):
    with pytest.raises(UsageError) as error:
        policy(text, NAMES)
    assert str(error.value) == (
        "The model names no value 'mlp_gate'; choose from layer_input, query."
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("save:query,query", "has query twice; a value has one place, name it once."),
        ("save:query+offload:query", "has query twice; a value has one place, name it once."),
        ("save:query,", "has an empty name; write NAME,NAME after the colon."),
        ("offload:+save:query", "has an empty name; write NAME,NAME after the colon."),
        ("save:query+save:layer_input", "has two parts of a kind; join their names by commas."),
    ],
)
def test_names_stand_once_each(text, sentence):
    with pytest.raises(UsageError) as error:
        policy(text, NAMES)
    assert str(error.value) == f"Policy '{text}' {sentence}"


@pytest.mark.parametrize("text", ["offload:query,key+save:value", "save:value+offload:key,query"])
def test_a_mixed_policy_moves_some_values_and_keeps_others_on_the_device(text, devices):
    sizes = named_bytes(MODELS["tiny"], 2, 64, attention="xla")
    moved = moved_bytes(traced("tiny", text, devices), jax.memory.Space.Host)
    assert moved == sizes["query"].total + sizes["key"].total
    only = traced("tiny", "offload:query,key", devices)
    # The values are kept, so the backward pass has one product with weights less to make again.
    assert products(traced("tiny", text, devices)) == products(only) - MODELS["tiny"].layers


def test_only_policies_that_say_so_offload():
    mixed = ("save:key+offload:query", "offload:query+save:key", "save:query")
    offloading = [text for text in (*POLICIES, *mixed) if is_offload(text)]
    assert offloading == ["offload", "offload-dots", *mixed[:2]]


@pytest.mark.parametrize("version", ["0.10.2", "0.11.0"])
def test_releases_with_wrong_gradients_may_not_offload(version):
    for text in ("offload", "offload-dots", "offload:query", "save:query+offload:key"):
        with pytest.raises(UsageError, match=rf"jax {version} .*openxla/xla#46231.*0\.11\.1"):
            check_version(text, version)
    check_version("remat", version)
    check_version("offload", "0.11.1")
