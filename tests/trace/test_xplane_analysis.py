"""A profile analysed: the same steps, transfers and phases as a trace of Nsight Systems has."""

import pytest

import nsysoffload
from nsysoffload.trace.xplane.convert import convert
from tests.trace.xspace import Event, call, copy, kernel, write_profile


def steps(count: int):
    """Return planes of steps of 1,000 us, in the form of JAX on CUDA, with a derived line.

    ::

        us            0    100   200   300   400   500   600   700   800   900
        execution     [      90)
        compute            [forward)   [recompute)             [backward)
        D2H                      [d2h      )
        H2D                                            [h2d    )
    """
    compute, down, up, host, python = [], [], [], [], []
    for number in range(count):
        at = 1_000 * number + 50
        fwd, d2h, rec, h2d, bwd = (5 * number + place for place in range(1, 6))

        def span(start, end, at=at):
            return at + start, at + end

        compute += [
            kernel("gemm_f", span(100, 300), fwd, "jvp()/dot_general", "fusion.1"),
            kernel(
                "gemm_f",
                span(300, 400),
                rec,
                "transpose(jvp())/checkpoint/rematted_computation/dot_general",
                "fusion.2",
            ),
            kernel("gemm_b", span(700, 900), bwd, "transpose(jvp())/dot_general", "fusion.3"),
        ]
        down.append(
            copy(
                "D2H",
                span(200, 400),
                d2h,
                size_bytes=4_000_000,
                kinds="device pinned",
                op_name="jvp()/block_in",
                hlo_op="copy-start.1",
            )
        )
        up.append(
            copy(
                "H2D",
                span(500, 700),
                h2d,
                size_bytes=4_000_000,
                kinds="pinned device",
                op_name="transpose(jvp())/block_in",
                hlo_op="copy-start.2",
            )
        )
        host.append(Event("jit_train_step:XLA GPU module", span(0, 90)))
        launches = zip((fwd, d2h, rec, h2d, bwd), range(10, 60, 10), strict=True)
        host += [call(_api(number), span(start, start + 2), number) for number, start in launches]
        python.append(Event("train_step", span(-10, 950), {"_r": 1, "step_num": number}))
    streams = {
        "Stream #13(Compute)": compute,
        "Stream #20(MemcpyD2H)": down,
        "Stream #21(MemcpyH2D)": up,
    }
    derived = {"XLA Ops": compute, "Steps": [Event("0", (0, 1_000 * count))]}
    return {
        "/device:GPU:0": streams | derived,
        "/host:CPU": {"py_xla_execute/-14725": host, "python": python},
    }


def _api(number: int) -> str:
    return {2: "cuMemcpyDtoHAsync_v2", 4: "cuMemcpyHtoDAsync_v2"}.get(number % 5, "cuLaunchKernel")


def test_steps_transfers_and_phases_are_those_of_the_picture(tmp_path):
    stats = {"/device:GPU:0": {"gpu_device_name": "NVIDIA H200"}}
    report = nsysoffload.analyze(write_profile(tmp_path / "run.xplane.pb", steps(4), stats))
    assert (report.trace.kind, report.trace.recorder) == ("measured", "jax")
    assert report.trace.warnings == ()
    (device,) = report.devices
    assert (device.name, device.link.name) == ("NVIDIA H200", "PCIe 5 x16")
    assert [step.start_ns for step in device.steps] == [150_000, 1_150_000, 2_150_000, 3_150_000]
    step = device.per_step
    assert (step.duration_ns, step.period_ns, step.kernels) == (800_000, 1_000_000, 3)
    assert step.phases == {
        "forward": 200_000,
        "recompute": 100_000,
        "backward": 200_000,
        "other": 0,
    }
    assert (step.d2h.busy_ns, step.d2h.hidden_ns, step.d2h.bytes) == (200_000, 200_000, 4_000_000)
    assert (step.h2d.busy_ns, step.h2d.hidden_ns, step.h2d.bytes) == (200_000, 0, 4_000_000)
    assert (step.stall_ns, step.unattributed) == (200_000, 0.0)


def test_transfers_are_named_by_operation(tmp_path):
    report = nsysoffload.analyze(write_profile(tmp_path / "run.xplane.pb", steps(4)))
    columns = ("op", "op_name", "phase", "direction", "copies", "stall_ns")
    rows = {tuple(getattr(group, name) for name in columns) for group in report.transfers}
    assert rows == {
        ("copy-start.1", "jit(train_step)/jvp()/block_in", "forward", "d2h", 1, 0),
        (
            "copy-start.2",
            "jit(train_step)/transpose(jvp())/block_in",
            "backward",
            "h2d",
            1,
            200_000,
        ),
    }


@pytest.mark.parametrize(
    ("thread", "options", "found_by"),
    [
        pytest.param("python", {}, "train_step", id="annotation"),
        pytest.param("", {}, "xla_module", id="execution"),
        pytest.param("python", {"step_range": "train_.*"}, "step_range", id="asked-for"),
    ],
)
def test_steps_are_found_by_annotations_else_by_executions(tmp_path, thread, options, found_by):
    planes = steps(4)
    kept = {name: events for name, events in planes["/host:CPU"].items() if name != "python"}
    python = {"python": planes["/host:CPU"]["python"]} if thread else {}
    profile = write_profile(tmp_path / "run.xplane.pb", planes | {"/host:CPU": kept | python})
    report = nsysoffload.analyze(profile, **options)
    assert (report.window.steps_found_by, report.devices[0].per_step.steps) == (found_by, 4)


# --- Profiles of real GPUs ---


def test_tensorflows_profile_of_2020_is_matched_exactly(real_traces):
    trace = convert(real_traces / "xplane" / "tf2020-gpu.xplane.pb")
    assert trace.kernels.groupby("ordinal").size().to_dict() == {4: 665, 6: 665}
    copies = trace.copies.groupby(["ordinal", "copy_kind"])["size_bytes"]
    assert copies.agg(["size", "sum"]).T.to_dict("list") == {
        (1, 1): [19, 3_112],
        (4, 1): [82, 37_447],
        (4, 2): [12, 36_944],
        (6, 1): [101, 40_559],
        (6, 2): [12, 36_944],
    }
    assert trace.gpus["ordinal"].tolist() == [1, 4, 6]
    assert [warning.code for warning in trace.warnings] == ["no_memory_kinds"]


def test_its_figures_are_those_of_the_rows(real_traces):
    report = nsysoffload.analyze(real_traces / "xplane" / "tf2020-gpu.xplane.pb")
    figures = {
        device.ordinal: (
            device.trace.kernels,
            (device.trace.h2d.copies, device.trace.h2d.bytes),
            (device.trace.d2h.copies, device.trace.d2h.bytes),
        )
        for device in report.devices
    }
    assert figures == {
        1: (0, (19, 3_112), (0, 0)),
        4: (665, (82, 37_447), (12, 36_944)),
        6: (665, (101, 40_559), (12, 36_944)),
    }


def test_jaxs_profile_from_amd_has_operations_and_no_overlap(real_traces):
    profile = real_traces / "xplane" / "jax08-mi300-conv.xplane.pb"
    trace = convert(profile)
    assert trace.kernels.groupby("ordinal").size().tolist() == [60, *[25] * 7]
    assert (len(trace.calls), len(trace.copies)) == (234, 0)
    assert (trace.kernels["name"] == "__amd_rocclr_copyBuffer").sum() == 35
    assert [w.code for w in trace.warnings] == ["copies_as_kernels", "no_executions"]
    report = nsysoffload.analyze(profile)
    assert report.verdict.outcome == "cannot_tell"
    assert {device.trace.both.overlap for device in report.devices} == {None}
    assert all(device.trace.both.overlap_null_reason for device in report.devices)
    assert report.devices[0].trace.other_busy_ns > 0
    names = trace.nvtx_ranges["text"]
    name = "Thunk:#name=jit(forward_3d_conv)/conv_general_dilated,hlo_op=cudnn-conv.1#"
    assert (names == name).sum() == 79  # of 80 such kernels; one call was not recorded
