"""Real compilations of tiny programs, and the sentence that each failure becomes."""

import stat
import sys
from pathlib import Path

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.hardware import TARGETS
from nsysoffload.recorders.flags import xla_flags
from nsysoffload.recorders.predict.compile import compile_function, compile_program
from nsysoffload.recorders.predict.memory import Memory
from nsysoffload.recorders.predict.process import CompileError
from nsysoffload.recorders.predict.signature import State, check
from nsysoffload.recorders.predict.versions import JAX_VERSION

GB200 = TARGETS["gb200"]
PROGRAMS = Path(__file__).parent / "programs"

pytestmark = pytest.mark.usefixtures("compiler")


@pytest.fixture(autouse=True)
def in_the_folder_of_the_programs(monkeypatch):
    monkeypatch.chdir(PROGRAMS)


def test_a_program_is_compiled_as_given_whatever_the_environment_says(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such_flag=1")
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    log = tmp_path / "log.txt"
    flags = xla_flags("pipelined")
    compiled = compile_program(
        "layers:train_step",
        target=GB200,
        devices=2,
        arguments={"layers": 4},
        flags=flags,
        log=log,
    )
    assert (compiled.target, compiled.devices, compiled.flags) == ("gb200", 2, flags)
    assert compiled.jax_version == JAX_VERSION
    assert compiled.text.startswith("HloModule jit_step, is_scheduled=true")
    assert check(compiled.text).state is State.OK
    assert "layers: 4" in log.read_text()
    assert capfd.readouterr() == ("", "")

    # Per device, in bf16: half of 4 x 128 x 128 weights, as much momentum, half of the batch of
    # 512 x 128 for each of 4 layers; new weights and momentum are written over the old ones.
    weights, batch = 4 * 128 * 128 * 2 // 2, 512 * 128 * 2 // 2
    memory = compiled.memory
    assert memory.argument_bytes == weights + batch
    assert memory.alias_bytes == weights
    assert memory.host_argument_bytes == memory.host_output_bytes == weights
    assert memory.host_alias_bytes == weights
    assert memory.host_temp_bytes == 4 * batch
    assert memory.host_bytes == weights + 4 * batch


def test_a_function_of_this_process_keeps_shardings_memory_kinds_and_donation():
    import jax
    from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

    sharding = NamedSharding(AbstractMesh((4,), ("data",)), PartitionSpec("data"))
    pinned = sharding.with_memory_kind("pinned_host")
    on_host = jax.ShapeDtypeStruct((64, 64), "float32", sharding=pinned)
    on_device = jax.ShapeDtypeStruct((64, 64), "float32", sharding=sharding)
    add = jax.jit(
        lambda x, y: jax.device_put(x, jax.memory.Space.Device) + y,
        donate_argnums=1,
        out_shardings=sharding,
    )
    compiled = compile_function(add, on_host, on_device, target=TARGETS["h100"])
    part = 64 * 64 * 4 // 4
    assert compiled.devices == 4
    assert compiled.memory == Memory(
        argument_bytes=part,
        output_bytes=part,
        alias_bytes=part,
        temp_bytes=compiled.memory.temp_bytes,
        host_argument_bytes=part,
        host_output_bytes=0,
        host_alias_bytes=0,
        host_temp_bytes=0,
    )


@pytest.mark.parametrize(
    ("program", "message"),
    [
        pytest.param(
            "broken:raises",
            "Tracing broken:raises failed with ValueError: no such model (more in {log}).",
            id="exception",
        ),
        pytest.param(
            "broken:leaves",
            "Tracing broken:leaves failed with SystemExit: no data (more in {log}).",
            id="exit",
        ),
        pytest.param(
            "broken:makes_no_function",
            "Tracing broken:makes_no_function failed with TypeError: it has to return a jitted "
            "function and a tuple of arguments (more in {log}).",
            id="no function",
        ),
        pytest.param(
            "broken:is_killed",
            "The process that compiled broken:is_killed was killed, most likely for want of "
            "memory; free some, or try a smaller model.",
            id="killed",
        ),
        pytest.param(
            "broken:ignores_devices",
            "broken:ignores_devices uses 1 of the 2 devices it is given; make the shardings of its "
            "arguments of all of them.",
            id="too few devices",
        ),
    ],
)
def test_a_program_that_fails_becomes_one_sentence(tmp_path, program, message):
    log = tmp_path / "log.txt"
    with pytest.raises(CompileError) as raised:
        compile_program(program, target=GB200, devices=2, log=log)
    assert str(raised.value) == message.format(log=log)
    assert raised.value.exit_code == 3


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        pytest.param(
            "--xla_no_such_flag=1",
            f"XLA of jax {JAX_VERSION} has no flag --xla_no_such_flag=1; correct it.",
            id="unknown",
        ),
        pytest.param(
            "--xla_gpu_enable_triton_gemm=maybe",
            "XLA cannot read 'maybe' as the value of --xla_gpu_enable_triton_gemm; correct it.",
            id="bad value",
        ),
    ],
)
def test_a_flag_that_xla_does_not_take_becomes_one_sentence(extra, message):
    with pytest.raises(CompileError) as raised:
        compile_program("broken:ignores_devices", target=GB200, flags=xla_flags(extra=extra))
    assert str(raised.value) == message


def test_a_compilation_that_takes_too_long_is_given_up():
    with pytest.raises(CompileError, match=r"^Compiling broken:raises took longer than 0\.1 s;"):
        compile_program("broken:raises", target=GB200, timeout_s=0.1)


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        ("broken", {}, "'broken' names no function; write it as module:function."),
        ("a:b", {"x": 1j}, "The arguments of a:b have to be JSON: Object of type complex"),
    ],
)
def test_what_cannot_be_passed_on_is_refused(program, arguments, message):
    with pytest.raises(UsageError) as raised:
        compile_program(program, target=GB200, arguments=arguments)
    assert str(raised.value).startswith(message)


# What XLA prints, shortened, in cases that a test cannot bring about on every machine.
NO_PTXAS = (
    "jax.errors.JaxRuntimeError: UNAVAILABLE: No PTX compilation provider is available. Details:\n"
    " - ptxas_path: Couldn't find a suitable version of ptxas. The following locations were ..."
)
NO_LIBDEVICE = "jax.errors.JaxRuntimeError: INTERNAL: libdevice not found at ./libdevice.10.bc"
SIXTY_FOUR_GPUS = (
    "F1202 error_handler.cc:44] size mismatch when packing elements for LLVM struct Context: "
    'fusion_backend_config":{"kind":"__triton_collective"}'
)


@pytest.mark.parametrize(
    ("printed", "answer", "message"),
    [
        pytest.param(
            NO_PTXAS,
            '{"failed": "compiler", "error": "JaxRuntimeError: UNAVAILABLE"}',
            "XLA found no ptxas, a part of CUDA's compiler; run: pip install "
            "'nsysoffload[predict]'",
            id="no ptxas",
        ),
        pytest.param(
            NO_LIBDEVICE,
            '{"failed": "compiler", "error": "JaxRuntimeError: INTERNAL"}',
            "XLA found no libdevice, a part of CUDA's compiler; run: pip install "
            "'nsysoffload[predict]'",
            id="no libdevice",
        ),
        pytest.param(
            "jax.errors.JaxRuntimeError: INTERNAL: surprise",
            '{"failed": "compiler", "error": "JaxRuntimeError: INTERNAL: surprise"}',
            "Compiling a:b failed with JaxRuntimeError: INTERNAL: surprise.",
            id="compiler",
        ),
        pytest.param(
            SIXTY_FOUR_GPUS,
            None,
            "The compiler failed on a small all-reduce over this many GPUs; try again with "
            "--xla_gpu_unsupported_use_all_reduce_one_shot_kernel=false.",
            id="all-reduce",
        ),
        pytest.param(
            "Check failed", None, "The process that compiled a:b ended with exit code 1.", id="died"
        ),
    ],
)
def test_a_failure_of_the_compiler_becomes_one_sentence(
    monkeypatch, tmp_path, printed, answer, message
):
    python = tmp_path / "python"
    python.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib, sys\n"
        f"print({printed!r})\n"
        f"answer = {answer!r}\n"
        "if answer is None:\n"
        "    sys.exit(1)\n"
        "folder = json.loads(sys.stdin.readline())['folder']\n"
        "pathlib.Path(folder, 'answer.json').write_text(answer)\n"
    )
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(CompileError) as raised:
        compile_program("a:b", target=GB200)
    assert str(raised.value) == message
