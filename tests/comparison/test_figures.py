from dataclasses import replace

import pytest

from nsysoffload.comparison.figures import MOST_RUNS, axis_start_ns, memory, waterfall
from nsysoffload.comparison.model import Account, Comparison, Part
from nsysoffload.comparison.tradeoff import points, tradeoff, unbeaten
from nsysoffload.trace.workload import Workload
from tests.comparison.examples import pair

MS, GB = 10**6, 10**9
WORKLOAD = Workload("tiny", 4, 8, 1_000, "", "adam", False)
TITLES = ("recompute", "compute", "stall")


def account(*changes_ms: int) -> Account:
    """From a step of 100 ms, in parts of 20, 70 and 10 ms."""
    before = (20, 70, 10)
    parts = tuple(
        Part(name, base * MS, (base + change) * MS, change * MS)
        for name, base, change in zip(TITLES, before, changes_ms, strict=True)
    )
    return Account(2, 3, 100 * MS, (100 + sum(changes_ms)) * MS, parts)


def bars(figure, name):
    (found,) = [trace for trace in figure["data"] if trace["name"] == name]
    return list(zip(found["y"], found["base"], found["x"], found["text"], strict=True))


def runs(*figures, limit_gb=80, **fields) -> Comparison:
    """Runs of so many ms and GB, the base first."""
    made = pair()
    base, *new = (
        replace(
            made.base,
            name=f"run{n}",
            step_ns=step_ms * MS,
            step_low_ns=(step_ms - 1) * MS,
            step_high_ns=(step_ms + 2) * MS,
            device_bytes=size_gb * GB,
            host_bytes=n * GB,
            device_limit_bytes=limit_gb and limit_gb * GB,
            fits=size_gb <= limit_gb if limit_gb else None,
            **fields,
        )
        for n, (step_ms, size_gb) in enumerate(figures)
    )
    return replace(made, base=base, new=tuple(new))


def named(figure):
    return {trace["name"]: trace for trace in figure["data"]}


# --- From step to step ---


def test_each_part_begins_where_the_one_before_it_ended():
    #  base     [0                    100)
    #  saved              [85 100)
    #  cost               [85      115)
    #  new      [0                        115)
    figure = waterfall(account(-15, 0, 30), ("remat", "offload"), TITLES)
    assert bars(figure, "whole step") == [(0, 0, 100, "100 ms"), (3, 0, 115, "115 ms")]
    assert bars(figure, "saves") == [(1, 85, 15, "−15.0 ms")]
    assert bars(figure, "costs") == [(2, 85, 30, "+30.0 ms")]
    assert figure["layout"]["yaxis"]["ticktext"] == [
        "<b>remat</b>",
        "recompute",
        "stall",
        "<b>offload</b>",
    ]


def test_what_saves_and_what_costs_differ_in_colour_and_in_pattern():
    data = named(waterfall(account(-15, 0, 30), ("a", "b"), TITLES))
    styles = {(t["marker"]["color"], t["marker"]["pattern"]["shape"]) for t in data.values() if
              t["type"] == "bar"}  # fmt: skip
    assert len(styles) == 3
    assert data["costs"]["marker"]["pattern"]["shape"] == "/"


def test_small_changes_are_drawn_from_farther_up_and_large_ones_from_0():
    assert axis_start_ns(account(-20, 0, 30)) == 0
    start_ns = axis_start_ns(account(-1, 0, 2))
    assert 90 * MS < start_ns < 99 * MS
    figure = waterfall(account(-1, 0, 2), ("a", "b"), TITLES)
    assert figure["layout"]["xaxis"]["range"][0] == start_ns / MS
    assert bars(figure, "whole step")[0][1:3] == (start_ns / MS, 100 - start_ns / MS)


def test_steps_without_any_change_are_two_equal_bars():
    figure = waterfall(account(0, 0, 0), ("a", "b"), TITLES)
    assert [row for row, *_ in bars(figure, "whole step")] == [0, 1]
    assert not named(figure)["costs"]["visible"]


def test_names_of_runs_are_no_markup():
    figure = waterfall(account(1, 0, 0), ("<img>", "b"), TITLES)
    assert figure["layout"]["yaxis"]["ticktext"][0] == "<b>&lt;img&gt;</b>"


# --- Time against memory ---


def test_runs_stand_at_their_memory_and_time_with_their_range():
    data = named(tradeoff(runs((100, 40), (90, 30))))
    base = data["base"]
    assert (base["x"], base["y"]) == ([40], [100])
    assert (base["error_y"]["array"], base["error_y"]["arrayminus"]) == ([2], [1])
    assert "40.0 GB of 80.0 GB on the device" in base["hovertext"][0]


def test_base_best_others_and_what_does_not_fit_have_shapes_of_their_own():
    made = runs((100, 40), (90, 30), (80, 90), (95, 35))
    made = replace(made, new=(replace(made.new[0], best=True), *made.new[1:]))
    symbols = {
        name: trace["marker"]["symbol"]
        for name, trace in named(tradeoff(made)).items()
        if "marker" in trace
    }
    assert symbols == {
        "base": "square",
        "best": "star",
        "other runs": "circle",
        "does not fit": "circle-x-open",
    }


def test_the_staircase_joins_the_runs_that_fit_and_that_none_beats_in_both():
    #  ms   100 *  a         a: least memory
    #        90      *  b    b: less time for more memory
    #        95       *  c   c: beaten by b
    #        80           d  d: fastest, but does not fit
    made = runs((100, 20), (90, 40), (95, 50), (80, 90))
    assert [point.run.name for point in unbeaten(points(made))] == ["run0", "run1"]
    stairs = named(tradeoff(made))["no run needs less of both"]
    assert (stairs["x"], stairs["y"], stairs["line"]["shape"]) == ([20, 40], [100, 90], "hv")


def test_a_run_that_needs_as_much_and_is_slower_is_beaten():
    assert [p.run.name for p in unbeaten(points(runs((100, 20), (90, 20))))] == ["run1"]


def test_the_memory_of_the_gpu_is_a_line_where_it_is_near_and_a_word_where_it_is_far():
    near = tradeoff(runs((100, 70), (90, 60)))
    assert named(near)["memory of the GPU, 80.0 GB"]["x"] == [80, 80]
    assert near["layout"]["annotations"] == []
    far = tradeoff(runs((100, 7), (90, 6)))
    assert "memory of the GPU, 80.0 GB" not in named(far)
    assert far["layout"]["annotations"][0]["text"] == "memory of the GPU: 80.0 GB →"
    assert tradeoff(runs((100, 7), (90, 6), limit_gb=None))["layout"]["annotations"] == []


def test_steps_of_different_sizes_are_compared_per_token():
    made = runs((100, 40), (180, 60), workload=WORKLOAD)
    large = replace(made.new[0], workload=replace(WORKLOAD, batch=16))
    figure = tradeoff(replace(made, new=(large,)))
    assert figure["layout"]["yaxis"]["title"]["text"] == "µs per token"
    assert named(figure)["base"]["y"] == [12.5]  # 100 ms for 8,000 tokens
    assert named(figure)["other runs"]["y"] == [11.25]  # 180 ms for 16,000


def test_one_run_that_knows_its_memory_is_no_plot():
    made = runs((100, 40), (90, 30))
    assert tradeoff(replace(made, new=(replace(made.new[0], device_bytes=None),))) is None
    assert tradeoff(replace(made, new=(replace(made.new[0], step_ns=None),))) is None


def test_names_that_would_cover_each_other_are_left_out():
    crowd = tradeoff(runs(*((100, 40) for _ in range(20))))
    names = [text for trace in crowd["data"] for text in trace.get("text", ()) if text]
    assert 1 <= len(names) < 20
    apart = tradeoff(runs((100, 40), (90, 30), (80, 50)))
    names = [text for trace in apart["data"] for text in trace.get("text", ()) if text]
    assert sorted(names) == ["run0", "run1", "run2"]


# --- Memory ---


def test_memory_has_a_bar_for_device_and_host_of_each_run_and_a_line_at_the_limit():
    figure = memory(runs((100, 70), (90, 60)))
    assert [bar[2:] for bar in bars(figure, "device")] == [(70, "70.0 GB"), (60, "60.0 GB")]
    assert [bar[2:] for bar in bars(figure, "pinned on the host")] == [(0, "0 B"), (1, "1.00 GB")]
    assert named(figure)["memory of the GPU"]["x"] == [80, 80, None] * 2
    assert not named(memory(runs((100, 7), (90, 6))))["memory of the GPU"]["visible"]


def test_what_was_in_use_at_most_is_a_mark():
    figure = memory(runs((100, 70), (90, 60), device_peak_bytes=75 * GB))
    assert named(figure)["in use at most"]["x"] == [75, 75]


def test_without_any_memory_there_is_no_chart_and_of_many_runs_the_first_are_drawn():
    made = runs((100, 40), (90, 30))
    unknown = [replace(run, device_bytes=None) for run in made.runs]
    assert memory(replace(made, base=unknown[0], new=tuple(unknown[1:]))) is None
    many = memory(runs(*((100, 40) for _ in range(MOST_RUNS + 5))))
    assert len(bars(many, "device")) == MOST_RUNS


@pytest.mark.parametrize("draw", [tradeoff, memory])
def test_runs_without_host_memory_or_range_are_drawn_as_well(draw):
    made = runs((100, 40), (90, 30), limit_gb=None)
    base = replace(made.base, host_bytes=None, step_low_ns=None, step_high_ns=None)
    assert draw(replace(made, base=base))
