"""Plans out of run folders: prepared ones, which nothing is compiled for, and compiled ones."""

import json
from dataclasses import replace
from itertools import product

import jsonschema
import pytest

from nsysoffload.errors import UsageError
from nsysoffload.planning import plan
from nsysoffload.planning.code import capture_command, environment, policy_code
from nsysoffload.planning.json import render, schema
from nsysoffload.planning.model import Limits, judged
from nsysoffload.planning.plan import FIXED, TRIED_PRESETS
from nsysoffload.planning.terminal import render as as_text
from nsysoffload.planning.terminal import unmet
from nsysoffload.recorders.flags import PRESETS
from nsysoffload.recorders.predict.capture import Request
from nsysoffload.recorders.predict.kept import Asked, predicted_runs
from nsysoffload.recorders.predict.process import CompileError
from nsysoffload.recorders.variants import folder_name
from tests.planning.programs import GB, REQUEST, prepare


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    prepare(folder, FIXED, REQUEST)
    return folder


def planned(folder, **options):
    """Plan without compiling anything."""
    return plan(REQUEST, folder, compiles=0, presets=("default",), **options)


def by_policy(found):
    return {candidate.policy: candidate for candidate in found.candidates}


# --- Judged by what is there ---


def test_finished_runs_are_used_again_and_the_fastest_that_fits_is_best(prepared):
    said = []
    found = planned(prepared, progress=said.append)
    assert sorted(said) == sorted(f"{policy} (default): found" for policy in FIXED)
    assert [c.policy for c in found.candidates] == list(FIXED)
    assert all(c.fits and c.is_fixed for c in found.candidates)
    assert found.best.step_ns == min(c.step_ns for c in found.candidates)
    assert (found.nearest, found.placements) == (None, 2 * 3**6)


def test_limits_are_the_memory_of_the_target_where_none_are_given(prepared):
    assert planned(prepared).limits == Limits(197_897_748_480, 240 * GB)


@pytest.mark.parametrize(
    ("device", "host", "fitting"),
    [
        (40, 30, ["remat", "none", "dots", "offload", "offload-dots"]),
        (39, 30, ["remat", "dots", "offload", "offload-dots"]),
        (10, 29, ["remat", "offload-dots"]),
        (9, 30, ["offload", "offload-dots"]),
        (50, 1, ["remat", "none", "dots"]),
        (8, 29, []),
    ],
)
def test_what_breaks_a_limit_does_not_fit(prepared, device, host, fitting):
    found = planned(prepared, device_limit_bytes=device * GB, host_limit_bytes=host * GB)
    assert [c.policy for c in found.candidates if c.fits] == fitting
    assert (found.best in found.candidates) == bool(fitting)


def test_where_nothing_fits_the_nearest_is_told_with_what_it_needs(prepared):
    found = planned(prepared, device_limit_bytes=8 * GB, host_limit_bytes=25 * GB)
    assert (found.best, found.rivals) == (None, ())
    assert found.nearest.policy == "offload-dots"  # an eighth too much; offload has a fifth
    assert unmet(found) == (
        "Nothing that was compiled fits into 8.00 GB of each device and 25.0 GB of the host for"
        " it; offload-dots with preset default comes nearest and needs 9.00 GB and 20.0 GB. Raise"
        " the limits to that, use a smaller batch, or split the model over more devices."
    )


def test_what_the_ranges_do_not_tell_apart_are_rivals(prepared):
    found = planned(prepared)
    candidates = by_policy(found)
    best = found.best.prediction
    *corners, last = best.corners
    other = replace(
        best,
        step=replace(best.step, expected_ns=best.step.expected_ns + 1),
        corners=(
            replace(corners[0], step_ns=corners[0].step_ns + 1),
            *corners[1:],
            replace(last, step_ns=last.step_ns - 1),
        ),
    )
    rival = replace(candidates["dots"], policy="save:query", prediction=other)
    slow = replace(
        rival,
        prediction=replace(
            other,
            corners=tuple(replace(c, step_ns=2 * c.step_ns) for c in best.corners),
            step=replace(best.step, expected_ns=2 * best.step.expected_ns),
        ),
    )
    again = judged(REQUEST, found.limits, found.names, 1, (found.best, slow, rival))
    assert (again.best, again.rivals) == (found.best, (rival,))


def test_the_best_two_are_tried_with_the_other_presets(prepared):
    fastest = sorted(planned(prepared).candidates, key=lambda c: c.step_ns)[:2]
    policies = [candidate.policy for candidate in fastest]
    prepare(prepared, policies, replace(REQUEST, preset="pipelined"), "+pipelined")
    found = plan(REQUEST, prepared, compiles=0, presets=("default", "pipelined"))
    assert [(c.policy, c.preset) for c in found.candidates[len(FIXED) :]] == [
        (policy, "pipelined") for policy in policies
    ]


# --- Shown ---


@pytest.mark.parametrize("limit", [None, 10 * GB, 30 * GB, GB])
def test_the_json_fits_its_schema(prepared, limit):
    found = planned(prepared, device_limit_bytes=limit)
    told = json.loads(render(found, prepared))
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(told, schema(), cls=jsonschema.Draft202012Validator)
    assert [c["folder"] for c in told["candidates"]] == [folder_name(p) for p in FIXED]
    assert (told["best"] is None) == (told["code"] is None) == (told["nearest"] is not None)
    for shown, candidate in zip(told["candidates"], found.candidates, strict=True):
        assert shown["predicted"]["step"]["expected_ns"] == candidate.step_ns
        assert shown["fits"] == candidate.fits


@pytest.mark.parametrize("limit", [None, 10 * GB, 30 * GB, GB])
def test_the_terminal_shows_all_candidates_within_a_hundred_columns(prepared, limit):
    found = planned(prepared, device_limit_bytes=limit)
    text = as_text(found)
    assert max(map(len, text.splitlines())) <= 100
    table = text.split("Policy")[1]
    assert all(f" {policy} " in table for policy in FIXED)
    assert ("Best: " in text) == (limit != GB)


CODE = """\
policy = jax.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=["key"],
    names_which_can_be_offloaded=["mlp_gate", "mlp_up"],
    offload_src="device",
    offload_dst="pinned_host",
)
layer = jax.checkpoint(layer, policy=policy, prevent_cse=False)  # in jax.lax.scan"""


def test_a_placement_is_code_to_paste():
    assert policy_code("offload:mlp_gate,mlp_up+save:key", REQUEST) == CODE


@pytest.mark.parametrize("policy", [*FIXED, "save:key,value", "offload:layer_input"])
def test_the_code_of_every_policy_runs(policy):
    jax = pytest.importorskip("jax")
    found = {"jax": jax, "layer": lambda x: x * x}
    exec(policy_code(policy, REQUEST), found)  # noqa: S102
    assert found["layer"](3.0) == 9.0


def test_that_names_do_not_reach_all_of_attention_is_said():
    assert "cuDNN" in policy_code("save:attention_out", REQUEST)
    assert "cuDNN" not in policy_code("save:query", REQUEST)


def test_the_environment_lifts_what_stands_in_the_way(prepared):
    found = planned(prepared)
    offload = by_policy(found)["offload"]
    assert environment(found, offload) == {}
    memory = replace(offload.prediction.memory, device_bytes=150 * GB, host_bytes=(100 << 30) + 1)
    large = replace(
        offload, preset="pipelined", prediction=replace(offload.prediction, memory=memory)
    )
    assert environment(found, large) == {
        "XLA_FLAGS": "--xla_gpu_enable_latency_hiding_scheduler=true"
        " --xla_gpu_enable_pipelined_host_offloading=true",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.76",
        "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB": "101",
    }


def test_the_command_that_records_the_best_has_all_that_was_asked_for(prepared):
    found = planned(prepared)
    best = replace(by_policy(found)["offload"], policy="offload:key+save:value", preset="pipelined")
    request = replace(
        REQUEST, mesh="fsdp=2", batch=16, layers=4, optimizer="sgd", offload_optimizer=True
    )
    assert capture_command(replace(found, request=request), best) == (
        "nsysoffload capture --model tiny --mesh fsdp=2 --batch 16 --seq 1024 --layers 4"
        " --optimizer sgd --variant offload:key+save:value --xla-preset pipelined"
        " --offload-optimizer"
    )


# --- Refused ---


@pytest.mark.parametrize(
    ("change", "options", "sentence"),
    [
        ({}, {"device_limit_bytes": 0}, "A device limit of 0 bytes holds nothing; give 1 or more."),
        ({}, {"host_limit_bytes": -1}, "A host limit of -1 bytes holds nothing; give 1 or more."),
        ({}, {"names": ["mlp_down"]}, "The model names no value 'mlp_down'; choose from "),
        ({}, {"presets": ()}, "There is no preset to compile with; name one, such as default."),
        ({}, {"presets": ("fast",)}, "There is no XLA preset 'fast'; choose from "),
        ({}, {"compiles": -1}, "Nothing can be compiled -1 times; give 0 or more."),
        ({"model": "gpt"}, {}, "There is no model 'gpt'; choose one of "),
        ({"mesh": "rows=2"}, {}, "'rows=2' is no part of a mesh; "),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_compiled(
    change, options, sentence, tmp_path
):
    with pytest.raises(UsageError) as error:
        plan(replace(REQUEST, **change), tmp_path / "runs", **options)
    assert str(error.value).startswith(sentence)
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written to"):
        plan(REQUEST, tmp_path / "file", compiles=0, presets=("default",))


def test_presets_that_are_tried_are_there():
    assert set(TRIED_PRESETS) <= set(PRESETS)


# --- Compiled here ---

SMALL = Request(
    model="tiny", target="gb200", layers=2, batch=16, seq=1024, optimizer="sgd", steps=1
)
NAME = "mlp_gate"
EVERY = (*FIXED, f"save:{NAME}", f"offload:{NAME}")


def compile_into(folder, policies):
    asked = [Asked(SMALL, policy, folder / folder_name(policy)) for policy in policies]
    return {outcome.asked.variant: outcome for outcome in predicted_runs(asked)}


def small_plan(folder, **options):
    return plan(SMALL, folder, names=(NAME,), presets=("default",), **options)


@pytest.mark.usefixtures("compiler")
def test_an_interrupted_plan_goes_on_and_finds_the_best_of_all_under_every_limit(tmp_path):
    began = ("remat", "none", f"save:{NAME}")
    assert not any(outcome.error for outcome in compile_into(tmp_path, began).values())
    said = []
    first = small_plan(tmp_path, progress=said.append)
    found = {line.removesuffix(" (default): found") for line in said if line.endswith("found")}
    assert found == {"remat", "none"} | {c.policy for c in first.candidates} & {f"save:{NAME}"}

    outcomes = compile_into(tmp_path, EVERY)
    tried = {candidate.policy for candidate in first.candidates} | set(began)
    assert {policy for policy, outcome in outcomes.items() if outcome.was_kept} == tried
    made = [outcome.prediction for outcome in outcomes.values()]
    for limit, host in product(sorted({p.memory.device_bytes for p in made}), (1, 240 * GB)):
        limits = Limits(limit, host)
        fitting = [p.step.expected_ns for p in made if limits.admit(p)]
        best = small_plan(tmp_path, device_limit_bytes=limit, host_limit_bytes=host).best
        assert (best.step_ns if best else None) == min(fitting, default=None)


@pytest.mark.usefixtures("compiler")
def test_a_plan_whose_base_cannot_be_compiled_ends_with_the_reason(tmp_path):
    request, told = replace(SMALL, flags="--xla_no_such_flag=1", layers=1), []
    with pytest.raises(CompileError, match="has no flag --xla_no_such_flag=1"):
        plan(request, tmp_path, compiles=0, presets=("default",), progress=told.append)
    first, *others = (sentence.partition(": ")[2] for sentence in told)
    assert first == "XLA of jax 0.12.0.1 has no flag --xla_no_such_flag=1; correct it."
    assert others == ["the same"] * 4
