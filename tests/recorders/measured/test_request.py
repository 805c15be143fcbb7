from pathlib import Path

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.recorders.measured.request import TRAINER, Command, Request, Workload, command_of
from nsysoffload.recorders.variants import parse_variants

PARTIAL = Path("runs/x/.partial")
PLAIN = "--xla_gpu_enable_command_buffer="


def composed(request, variant="offload", **environment):
    (chosen,) = parse_variants([variant])
    return command_of(request, chosen, PARTIAL, "profiled", environment)


def options(command):
    words = list(command.words[len(TRAINER) :])
    return dict(zip(words[::2], words[1::2], strict=True))


def test_a_workload_is_trained_for_its_warm_up_and_the_steps_to_record():
    command = composed(Request(Workload("tiny", warmup=4), steps=2))
    assert command.words[: len(TRAINER)] == TRAINER
    assert options(command) == {
        "--model": "tiny",
        "--policy": "offload",
        "--steps": "6",
        "--warmup": "4",
        "--profile-steps": "2",
        "--output": "runs/x/.partial/profiled",
    }


def test_what_is_asked_of_a_workload_is_passed_on():
    workload = Workload("m", "fsdp=8", 16, 4096, 2, "sgd", offload_optimizer=True)
    words = composed(Request(workload)).words
    text = " ".join(words)
    for part in ("--mesh fsdp=8", "--batch 16", "--seq 4096", "--layers 2", "--optimizer sgd"):
        assert part in text
    assert words[-1] == "--offload-optimizer"


def test_a_variant_adds_words_and_environment():
    command = composed(Request(command=("python", "train.py")), "a=B=1 c d=2")
    assert command.words == ("python", "train.py", "c", "d=2")
    assert command.environment["B"] == "1"


def test_each_variant_has_a_compilation_cache_of_its_own():
    environment = composed(Request(command=("x",))).environment
    assert environment["JAX_COMPILATION_CACHE_DIR"] == "runs/x/.partial/cache"


@pytest.mark.parametrize(
    ("request_", "variant", "flags"),
    [
        pytest.param(Request(Workload("tiny")), "a", PLAIN, id="kernels one by one"),
        pytest.param(
            Request(Workload("tiny"), command_buffers=True), "a", None, id="graphs where asked"
        ),
        pytest.param(Request(command=("x",)), "a", None, id="a command is left as it is"),
        pytest.param(
            Request(command=("x",), preset="lhs"),
            "a",
            "--xla_gpu_enable_latency_hiding_scheduler=true",
            id="preset",
        ),
        pytest.param(
            Request(command=("x",), flags="--xla_a=2"),
            "a=XLA_FLAGS='--xla_a=1 --xla_b=1'",
            "--xla_a=2 --xla_b=1",
            id="flags over those of the variant",
        ),
        pytest.param(
            Request(command=("x",)),
            """a=XLA_FLAGS='--xla_dump_to="a b"'""",
            '--xla_dump_to="a b"',
            id="quotes",
        ),
    ],
)
def test_flags_of_xla_are_put_together(request_, variant, flags):
    assert composed(request_, variant).environment.get("XLA_FLAGS") == flags


def test_flags_of_this_process_are_kept_and_give_way():
    inherited = "--xla_gpu_enable_latency_hiding_scheduler=false --xla_b=1 --xla_c"
    command = composed(Request(command=("x",), preset="lhs"), XLA_FLAGS=inherited)
    assert command.environment["XLA_FLAGS"] == (
        "--xla_gpu_enable_latency_hiding_scheduler=true --xla_b=1 --xla_c"
    )


def test_what_is_no_flag_is_refused():
    with pytest.raises(UsageError, match="'fast' is no XLA flag"):
        composed(Request(command=("x",), flags="fast"))


def test_a_command_is_written_as_for_a_shell():
    command = Command(("python", "a b.py"), {"XLA_FLAGS": "--xla_a=1 --xla_b=2", "N": "1"})
    assert str(command.behind("nsys", "profile")) == (
        "XLA_FLAGS='--xla_a=1 --xla_b=2' N=1 nsys profile python 'a b.py'"
    )
