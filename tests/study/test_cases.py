import re

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.hardware import TARGETS
from nsysoffload.recorders.flags import PRESETS
from nsysoffload.study.cases import BASE, GB200, STUDIES
from workloads.config import MODELS
from workloads.sharding import parse_mesh


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_a_study_names_models_targets_presets_and_variants_that_there_are(study):
    assert study.target in TARGETS
    assert {subject.model for subject in study.subjects} <= set(MODELS)
    assert {variant.preset for variant in study.variants} <= set(PRESETS)
    keys = [case.key for case in study.cases()]
    assert len(keys) == len(set(keys))
    assert len({case.folder for case in study.cases()}) == len(keys)
    assert BASE in {variant.key for variant in study.variants}


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_a_published_figure_is_about_a_run_of_the_study_and_has_what_its_kind_needs(study):
    keys = {case.key for case in study.cases()}
    for said in study.statements:
        assert (said.model, said.batch, said.variant) in keys
        assert said.kind in ("tflops", "gain", "fits")
        assert (said.value is None) == (said.kind == "fits")
        assert (said.fits is None) == (said.kind != "fits")


def test_the_study_of_gb200_is_24_runs_on_128_gpus():
    assert len(list(GB200.cases())) == 2 * 2 * 6
    for subject in GB200.subjects:
        axes = parse_mesh(subject.mesh)
        assert axes["fsdp"] * axes.get("expert", 1) == 128


def test_a_part_of_a_study_has_its_runs_in_their_order():
    some = GB200.only(["deepseek-v3-671b"], [1024])
    assert [case.text for case in some.cases()][:2] == [
        "deepseek-v3-671b, batch 1024, keep all",
        "deepseek-v3-671b, batch 1024, rematerialise",
    ]
    assert GB200.only() == GB200


def test_the_folder_of_a_run_is_named_after_model_batch_and_variant():
    assert [case.folder for case in GB200.cases()][5] == (
        "llama3.1-405b/b256/best-pipelined+double-buffering"
    )


@pytest.mark.parametrize(
    ("models", "batches", "message"),
    [
        (["llama3.1-405"], [], "Model 'llama3.1-405' is not known; did you mean 'llama3.1-405b'?"),
        ([], [512], "The study has no batch of 512; choose from 256, 1024."),
    ],
)
def test_what_is_no_part_of_a_study_is_refused(models, batches, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        GB200.only(models, batches)
