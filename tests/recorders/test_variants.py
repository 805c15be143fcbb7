import pytest

from nsysoffload.errors import UsageError
from nsysoffload.recorders.ranks import Rank, rank_of
from nsysoffload.recorders.variants import Variant, folder_name, parse_variants


def test_a_variant_is_a_name():
    assert parse_variants(["offload", "save:query,key"]) == (
        Variant("offload"),
        Variant("save:query,key"),
    )


def test_words_are_added_and_leading_capitals_are_environment():
    text = "offload=XLA_FLAGS='--xla_a=1 --xla_b=2' A1=x remat_policy=custom LATE=1 --n 'a b'"
    (variant,) = parse_variants([text])
    assert variant.environment == {"XLA_FLAGS": "--xla_a=1 --xla_b=2", "A1": "x"}
    assert variant.words == ("remat_policy=custom", "LATE=1", "--n", "a b")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["=x"], "'=x' has no name"),
        (["a='open"], "cannot be read"),
        (["save:a", "save-a"], "'save:a' and 'save-a' would share the folder save-a"),
    ],
)
def test_what_names_no_variant_is_refused(texts, message):
    with pytest.raises(UsageError, match=message):
        parse_variants(texts)


def test_the_same_variant_twice_is_one():
    assert len(parse_variants(["remat", "remat"])) == 1


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        ("offload", "offload"),
        ("offload-dots", "offload-dots"),
        ("save:query,mlp_gate", "save-query,mlp_gate"),
        ("offload: query", "offload-query"),
        ("../../etc", "etc"),
        (".", "run"),
        ("", "run"),
    ],
)
def test_a_folder_is_named_after_its_variant(variant, name):
    assert folder_name(variant) == name


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, None),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),  # a batch script
        (
            {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"},
            Rank(3, 8, "SLURM_PROCID"),
        ),
        (
            {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"},
            Rank(0, 2, "OMPI_COMM_WORLD_RANK"),
        ),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, Rank(1, 2, "PMI_RANK")),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, None),
        ({"PMI_RANK": "x", "PMI_SIZE": "2"}, None),
    ],
)
def test_a_rank_is_known_by_its_launcher(environment, rank):
    assert rank_of(environment) == rank
