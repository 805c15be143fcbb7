"""What a profile changes in the schedule of Llama 3.1 8B with its MLP offloaded; all is modelled.

    python -m benchmarks.pgle DIR

Compiles the step for eight GB200, without a GPU, under each preset of XLA's flags: without a
profile, and with one for each way to treat host copies. All schedules are timed by the model, and
again with other constants than those that the profiles were made with. Last come profiles that were
made for one of these other machines. What is compiled is kept in DIR, so that a second run only
times it. A compilation takes some 15 s of a processor.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from nsysoffload.hardware import TARGETS
from nsysoffload.profiles.costs import Copies
from nsysoffload.profiles.distances import Distance, distances
from nsysoffload.profiles.files import write
from nsysoffload.profiles.instructions import instructions
from nsysoffload.profiles.profile import profile
from nsysoffload.recorders.predict.bundle import load, save
from nsysoffload.recorders.predict.capture import Request, compiled, options_of, timed
from nsysoffload.recorders.predict.compile import Compiled
from nsysoffload.recorders.predict.constants import corners
from nsysoffload.recorders.predict.hlo import parse
from nsysoffload.recorders.predict.predict import Options, simulated
from nsysoffload.recorders.predict.record import Record
from nsysoffload.recorders.predict.schedule import program
from nsysoffload.trace.prediction import Constant

__all__ = ["main"]

POLICY = "offload:mlp_gate,mlp_up+save:layer_input,query,key,value,attention_out"
PRESETS = ("default", "pipelined", "pipelined+double-buffering")
NO_PROFILE = "none"

# Other machines than the one that the profile was made for: a constant, and its value there.
MACHINES = (
    ("host link 100 GB/s", {"h2d": 100.0, "d2h": 100.0}),
    ("host link 350 GB/s", {"h2d": 350.0, "d2h": 350.0}),
    ("collectives 0.4 of peak", {"nvlink_efficiency": 0.4}),
    ("collectives 0.9 of peak", {"nvlink_efficiency": 0.9}),
    ("products 0.5 of peak", {"gemm_efficiency": 0.5}),
)


def main(folder: Path) -> None:
    """Print for each preset how copies lie and what steps take, here and on other machines."""
    print("Modelled, not measured: the times of steps come from a cost model.")
    for preset in PRESETS:
        request = Request("llama3.1-8b", "gb200", mesh="fsdp=8", preset=preset)
        options = options_of(request)
        programs = dict(_programs(request, options, folder / preset))
        _print_schedules(preset, programs, options)
        print(f"\n{preset}, step in ms on other machines\n")
        print(_row("machine", *programs))
        for machine, values in MACHINES:
            elsewhere = _on(options, values)
            runs = (_expected(each, elsewhere) for each in programs.values())
            print(_row(machine, *(f"{_step_ms(run):.1f}" for run in runs)))
    request = Request("llama3.1-8b", "gb200", mesh="fsdp=8", preset="pipelined")
    machine, values = MACHINES[0]
    slow = _on(options_of(request), values)
    programs = dict(_programs(request, slow, folder / "pipelined-slow-link"))
    _print_schedules(f"pipelined, {machine}, profiles made for it", programs, slow)


def _print_schedules(title: str, programs: dict[str, Compiled], options: Options) -> None:
    print(f"\n{title}\n")
    print(_row("profile", "D2H", "H2D", "exposed D2H/H2D", "collectives", "step", "device GB"))
    for name, step in programs.items():
        print(_row(name, *_figures(step, options)))


def _programs(request: Request, options: Options, folder: Path) -> Iterator[tuple[str, Compiled]]:
    """Yield the program without a profile, then with each that is made on this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = _kept(request, folder / "none.json.gz")
    yield NO_PROFILE, plain
    run = timed(request, POLICY, plain, options, folder / "run").folder
    for copies in Copies:
        path = folder / f"profile-{copies}"
        write(profile([run], copies=copies).profile, path)
        guided = replace(request, profile=path.resolve())
        yield copies, _kept(guided, folder / f"{copies}.json.gz")


def _kept(request: Request, file: Path) -> Compiled:
    if not file.exists():
        save(compiled(request, POLICY), file)
    return load(file)


def _figures(step: Compiled, options: Options) -> Iterator[str]:
    run = _expected(step, options)
    found = distances(step.text, instructions(step.text))
    for direction in ("d2h", "h2d"):
        yield _counts([d for d in found if d.direction == direction and d.loop])
    last = len(run.steps()) - 1
    exposed = (run.transfers(way, last).exposed_ns / 1e6 for way in ("d2h", "h2d"))
    yield " / ".join(f"{ms:.1f}" for ms in exposed)
    yield f"{run.lost_ns(last)['collective'] / 1e6:.1f}"
    yield f"{_step_ms(run):.1f}"
    yield f"{step.memory.device_bytes / 1e9:.2f}"


def _counts(found: list[Distance]) -> str:
    """Kernels, and products among them, between start and end of the copies in loops."""
    return ", ".join(dict.fromkeys(f"{d.kernels} ({d.products})" for d in found))


def _expected(step: Compiled, options: Options) -> Record:
    """Run a program with the expected constants."""
    steps = program(parse(step.text))
    return simulated(steps, TARGETS[step.target], corners(options.constants)[0], options)


def _step_ms(run: Record) -> float:
    return run.steps()[-1].duration_ns / 1e6


def _on(options: Options, values: dict[str, float]) -> Options:
    """Return the options for a machine where some constants have other values."""
    return replace(options, constants=tuple(_set(c, values) for c in options.constants))


def _set(constant: Constant, values: dict[str, float]) -> Constant:
    value = values.get(constant.name)
    if value is None:
        return constant
    return replace(constant, low=value, expected=value, high=value)


def _row(*cells: str) -> str:
    first, *rest = cells
    return "  ".join([f"{first:26}", *(f"{cell:>18}" for cell in rest)])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
