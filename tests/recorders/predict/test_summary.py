from dataclasses import replace

import pytest

from nsysoffload.recorders.predict.summary import ORDER, render
from nsysoffload.trace.prediction import Corner, Range
from tests.report.examples import PREDICTION

FITTING = replace(PREDICTION.memory, device_bytes=100_000_000_000, host_bytes=0)
BASE = replace(PREDICTION, memory=FITTING, corners=PREDICTION.corners[:2])


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def run(variant, *steps_ms, **fields):
    """Return a run whose expected and slow step take so long."""
    corners = tuple(
        Corner(corner.name, round(1e6 * step), 3_000_000, 0)
        for corner, step in zip(BASE.corners, steps_ms, strict=True)
    )
    return replace(BASE, variant=variant, corners=corners, **fields)


def sentences(*predictions):
    """Return what stands below the table, lines joined, but for what all rankings rest on."""
    lines = render(predictions).removesuffix(f"{ORDER}\n").splitlines()
    return " ".join(lines[2 + len(predictions) :])


def test_runs_stand_side_by_side_under_the_banner():
    remat = run("remat", 80, 100, step=Range(70_000_000, 80_000_000, 100_000_000))
    assert render([BASE, remat]) == (
        "Predicted, not measured: the times come from a model.\n"
        "Variant    Step      in the range H2D exposed D2H exposed Device Host\n"
        "offload  100 ms 90.0 ms to 123 ms     1.00 ms     2.00 ms 100 GB  0 B\n"
        "remat   80.0 ms 70.0 ms to 100 ms     3.00 ms        0 ns 100 GB  0 B\n"
        "remat is faster than offload: step -20.0 % expected, -20.0 % to -19.0 % in the model's"
        f" range.\n{ORDER}\n"
    )


def test_one_run_alone_is_ranked_against_nothing():
    assert len(render([BASE]).splitlines()) == 3


@pytest.mark.parametrize(
    ("steps_ms", "sentence"),
    [
        pytest.param(
            (110, 123.456789),
            "remat is slower than offload: step +10.0 % expected, +0.0 % to +10.0 % in the model's"
            " range.",
            id="slower",
        ),
        pytest.param((100, 123.456789), "remat takes as long as offload.", id="same"),
        pytest.param(
            (90, 150),
            "Cannot tell whether remat or offload is faster: step of remat against offload -10.0 %"
            " expected, -10.0 % to +21.5 % in the model's range, which turns the ranking around.",
            id="cannot tell",
        ),
    ],
)
def test_a_run_is_ranked_against_the_first(steps_ms, sentence):
    assert sentences(BASE, run("remat", *steps_ms)) == sentence


def test_each_later_run_is_ranked_against_the_first():
    text = sentences(BASE, run("remat", 90, 100), run("dots", 95, 100))
    assert "remat is faster than offload" in text
    assert "dots is faster than offload" in text


@pytest.mark.parametrize(
    ("memory", "sentence"),
    [
        pytest.param({"device_bytes": 139_500_000_000, "host_bytes": 64 << 30}, "", id="fits"),
        pytest.param(
            {"device_bytes": 139_500_000_001},
            "offload on gb200 (186 GB): it fits, but only with XLA_PYTHON_CLIENT_MEM_FRACTION above"
            " 0.75.",
            id="beyond the default share",
        ),
        pytest.param(
            {"host_bytes": (64 << 30) + 1},
            "offload on gb200 (186 GB): it fits, but only with XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB"
            " above its default of 64.",
            id="beyond the host's pool",
        ),
        pytest.param(
            {"device_bytes": 186_000_000_001, "host_bytes": 1 << 40},
            "offload on gb200 (186 GB): it does not fit.",
            id="beyond the GPU",
        ),
    ],
)
def test_what_does_not_simply_fit_is_said(memory, sentence):
    assert sentences(replace(BASE, memory=replace(FITTING, **memory))) == sentence


def test_without_memory_figures_nothing_is_said_of_it():
    lines = render([replace(BASE, memory=None)]).splitlines()
    assert len(lines) == 3
    assert "GB" not in lines[2]


@pytest.mark.parametrize(("columns", "width"), [("20", 80), ("90", 90), ("500", 100)])
def test_lines_keep_to_the_terminal_within_bounds(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    both = [replace(BASE, memory=PREDICTION.memory), run("remat", 90, 150)]
    longest = max(len(line) for line in render(both).splitlines())
    assert width - 20 < longest <= width


def test_a_long_variant_is_shortened_in_the_table():
    names = ",".join(["layer_input"] * 9)
    row = render([replace(BASE, variant=f"offload:{names}")]).splitlines()[2]
    assert row.startswith("offload:layer_i…ut,layer_input ")


def test_a_variant_is_text_and_no_markup():
    assert "[red]x[/red]" in render([replace(BASE, variant="[red]x[/red]")])
