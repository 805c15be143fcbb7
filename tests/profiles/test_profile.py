import gzip
import json
from dataclasses import replace

import pytest

from nsysoffload.errors import TraceError, UsageError
from nsysoffload.profiles.costs import Copies
from nsysoffload.profiles.instructions import instructions
from nsysoffload.profiles.profile import hopes, profile
from nsysoffload.timeline.steps import StepRule
from tests.profiles.modules import DUMPED, FINGERPRINT, PRINTED
from tests.profiles.traces import ADD, ADD_BEFORE, COPY, GATHER, Launches, whole_step

PIPELINED = "--xla_gpu_enable_pipelined_host_offloading=true"


def run(folder, *steps, text=PRINTED, manifest=None, launches=None):
    """Write the folder of a run with these steps."""
    trace = launches or Launches()
    for step in steps or (whole_step(1_000), whole_step(3_000)):
        trace.step(*step)
    trace.write(folder)
    (folder / "schedule.hlo.gz").write_bytes(gzip.compress(text.encode()))
    if manifest:
        said = {"schema": "nsysoffload-run/1", "kind": "measured", **manifest}
        (folder / "manifest.json").write_text(json.dumps(said))
    return folder


def refused(error, **options):
    with pytest.raises(error) as raised:
        profile(**options)
    return str(raised.value)


def test_the_profile_of_a_run_has_a_cost_for_each_of_its_instructions(tmp_path):
    said = {"xla_flags": [PIPELINED], "jax_version": "0.12.0.1", "program": {"model": "tiny"}}
    made = profile([run(tmp_path, manifest=said)]).profile
    assert made.costs == {
        "loop_add_fusion.1": 55.0,  # of 100 and 10 in a step
        "wrapped_dynamic-slice": 500.0,
        "wrapped_dynamic-slice.1": 500.0,
        "loop_add_fusion": 40.0,
        "all-gather-start.3": 50.0,
    }
    assert (made.missing, made.left_out) == ((), ())
    about = made.about
    assert (about.fingerprint, about.kind, about.copies) == (FINGERPRINT, "measured", "queued")
    assert (about.flags, about.jax_version) == ((PIPELINED,), "0.12.0.1")
    assert about.program == {"model": "tiny"}


def test_without_a_manifest_flags_are_unknown(tmp_path):
    made = profile([run(tmp_path)])
    assert (made.profile.about.flags, made.run.program) == (None, None)


def test_a_manifest_names_the_target_of_the_gpu_it_ran_on(tmp_path):
    made = profile([run(tmp_path, manifest={"device_kind": "NVIDIA GB200"})])
    assert made.run.target == "gb200"


def test_copies_that_are_left_out_are_not_missing(tmp_path):
    made = profile([run(tmp_path)], copies=Copies.OMIT).profile
    assert made.left_out == ("wrapped_dynamic-slice", "wrapped_dynamic-slice.1")
    assert made.missing == ()
    assert "wrapped_dynamic-slice" not in made.costs


@pytest.mark.parametrize("gone", [COPY, GATHER])
def test_what_is_not_in_the_trace_is_listed_and_gets_no_cost(tmp_path, gone):
    steps = [[each for each in whole_step(at) if each[0] != gone] for at in (1_000, 3_000)]
    made = profile([run(tmp_path, *steps)]).profile
    name = {COPY: "wrapped_dynamic-slice", GATHER: "all-gather-start.3"}[gone]
    assert made.missing == (name,)
    assert name not in made.costs


def test_a_trace_of_which_all_steps_are_skipped_is_refused(tmp_path):
    said = refused(UsageError, traces=[run(tmp_path)], rule=StepRule(skip=9))
    assert said == (
        "No step of the trace is left to take times from; record whole steps, or skip fewer with"
        " --skip-steps."
    )


def test_a_folder_of_ranks_is_one_run(tmp_path):
    for rank, gather in enumerate((50, 30)):
        steps = (whole_step(at, gather=gather) for at in (1_000, 3_000))
        run(tmp_path / f"rank{rank}", *steps, launches=Launches(pid=rank + 1))
    made = profile([tmp_path]).profile
    assert made.costs["all-gather-start.3"] == 30.0
    assert made.notes == ()


def test_traces_of_other_runs_are_no_ranks(tmp_path):
    for name, flag in (("a", "--xla_x=1"), ("b", "--xla_x=2")):
        (tmp_path / name).mkdir()
        run(tmp_path / name, manifest={"xla_flags": [flag]})
    (tmp_path / "bare").mkdir()
    paths = [tmp_path / name for name in ("a", "b")]
    assert "b/trace.sqlite is of another run than a/trace" in refused(UsageError, traces=paths)
    paths[1] = run(tmp_path / "bare")
    assert "bare/trace.sqlite is of another run" in refused(UsageError, traces=paths)
    assert "given twice" in refused(UsageError, traces=[paths[0], paths[0]])


def test_one_rank_of_several_is_told_that_collectives_hold_waiting(tmp_path):
    (note,) = profile([run(tmp_path)]).profile.notes
    assert note.startswith("The program runs on 2 GPUs, and 1 were traced")


def test_the_text_may_be_given(tmp_path):
    folder = run(tmp_path / "run", text="gone")
    for name, content in (("p.txt", DUMPED.encode()), ("p.gz", gzip.compress(PRINTED.encode()))):
        (tmp_path / name).write_bytes(content)
        assert len(profile([folder], hlo=tmp_path / name).profile.costs) == 5


def test_without_the_text_the_names_are_unknown(tmp_path):
    (run(tmp_path) / "schedule.hlo.gz").unlink()
    said = refused(UsageError, traces=[tmp_path])
    assert said.startswith("There is no schedule.hlo.gz beside trace.sqlite")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x1f\x8bbroken"])
def test_a_file_that_is_no_text_is_refused(tmp_path, content):
    (tmp_path / "x.hlo").write_bytes(content)
    said = refused(UsageError, traces=[run(tmp_path / "run")], hlo=tmp_path / "x.hlo")
    assert said.startswith("x.hlo holds no text of a module")


def test_a_trace_of_cuda_graphs_is_refused(tmp_path):
    steps = ([("command_buffer", (at, at + 900)), (ADD, (at + 900, at + 910))] for at in (0, 3_000))
    said = refused(TraceError, traces=[run(tmp_path, *steps, launches=Launches(node=7))])
    assert said.startswith("Much of the trace ran as CUDA graphs")


def test_a_trace_without_names_of_xla_is_refused(tmp_path):
    launches = Launches()
    launches.trace.kernel((1_000, 1_100), "gemm", call=(1, 2))
    launches.write(tmp_path)
    (tmp_path / "x.hlo").write_text(PRINTED)
    said = refused(TraceError, traces=[tmp_path], hlo=tmp_path / "x.hlo")
    assert said.startswith("The trace names no operations of XLA")


def test_a_trace_of_another_module_is_refused(tmp_path):
    said = refused(UsageError, traces=[run(tmp_path, launches=Launches("jit_other"))])
    assert said.startswith("The trace ran jit_other, and the text is of jit_step;")


def test_a_module_of_other_flags_is_refused_by_the_names_it_lacks(tmp_path):
    steps = ([*whole_step(at), ("fusion.77", (at + 690, at + 990))] for at in (1_000, 3_000))
    said = refused(UsageError, traces=[run(tmp_path, *steps)])
    assert said.startswith("30.0 % of the time is of operations that the module does not have")
    assert "(fusion.77)" in said


def test_a_module_with_much_that_did_not_run_is_refused(tmp_path):
    steps = ([(ADD, (at, at + 40)), (ADD_BEFORE, (at + 40, at + 50))] for at in (1_000, 3_000))
    said = refused(UsageError, traces=[run(tmp_path, *steps)])
    assert said.startswith("The trace has times for 2 of the module's 5 instructions")


def test_no_trace_is_refused():
    assert refused(UsageError, traces=[]) == "No trace was given; name at least one."


MODULE = instructions(PRINTED)


@pytest.mark.parametrize(
    ("module", "flags", "words"),
    [
        pytest.param(MODULE, (PIPELINED,), [], id="pipelined on two"),
        pytest.param(MODULE, None, [], id="unknown flags"),
        pytest.param(MODULE, (), ["Pipelined host offloading is off"], id="default flags"),
        pytest.param(
            replace(MODULE, devices=1), (PIPELINED,), ["The program runs on one GPU"], id="one GPU"
        ),
        pytest.param(
            replace(MODULE, by_name={ADD: MODULE.by_name[ADD]}),
            (),
            ["The module copies nothing"],
            id="no copies",
        ),
    ],
)
def test_where_nothing_is_to_be_gained_that_is_said(module, flags, words):
    said = list(hopes(module, flags))
    assert len(said) == len(words)
    assert all(text.startswith(word) for text, word in zip(said, words, strict=True))
