from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoffload.recorders.predict.simulator import Contention, Task, simulate


def spans(tasks, **options):
    start, end = simulate(tasks, **options)
    return [*zip(start.tolist(), end.tolist(), strict=True)]


# --- By hand ---


def test_a_stream_runs_its_tasks_in_the_order_given():
    #  a       [0   4)
    #  a              [4 6)
    #  b       [0 3)
    assert spans([Task("a", 4), Task("a", 2), Task("b", 3)]) == [(0, 4), (4, 6), (0, 3)]


def test_a_task_waits_for_its_inputs_and_blocks_what_stands_behind_it():
    #  a       [0     5)
    #  b  waits         [5 7)
    #  b  free            [7 8)   though it could run at 0
    assert spans([Task("a", 5), Task("b", 2, (0,)), Task("b", 1)]) == [(0, 5), (5, 7), (7, 8)]


def test_a_task_starts_no_earlier_than_the_host_has_issued_it():
    assert spans([Task("a", 2), Task("a", 2, release_ns=9)]) == [(0, 2), (9, 11)]


def test_a_release_counts_from_the_end_of_the_task_that_the_host_waited_for():
    #  a   [0    4)
    #  b             [4 + 3 = 7  8)
    assert spans([Task("a", 4), Task("b", 1, release_ns=3, released_by=0)]) == [(0, 4), (7, 8)]


def test_gaps_lie_between_tasks_of_a_stream_and_waits_between_streams():
    tasks = [Task("a", 4), Task("a", 4), Task("b", 1, (0,)), Task("b", 1, (2,))]
    #  a   [0 4)     [6 10)             gap 2
    #  b          [4 + 5 = 9 10) [12 13)
    assert spans(tasks, gap_ns=2, wait_ns=5) == [(0, 4), (6, 10), (9, 10), (12, 13)]


@pytest.mark.parametrize("contention", [None, Contention()])
def test_tasks_without_length_pass_time_on(contention):
    tasks = [Task("a", 0), Task("b", 0, (0,)), Task("a", 3, (1,)), Task("b", 0, (2,))]
    assert spans(tasks, contention=contention) == [(0, 0), (0, 0), (0, 3), (3, 3)]


def test_copies_in_both_directions_slow_each_other_while_both_run():
    #  h2d  [0    4)4 ns done, at half speed 6 more take 12 [16)
    #  d2h       [4 ............. 6 done by 16, 4 more at full speed [20)
    tasks = [Task("up", 10, link="h2d"), Task("down", 10, release_ns=4, link="d2h")]
    assert spans(tasks, contention=Contention(both_ways=0.5)) == [(0, 16), (4, 20)]


def test_copies_in_one_direction_do_not_slow_each_other():
    tasks = [Task("a", 10, link="h2d"), Task("b", 10, link="h2d")]
    assert spans(tasks, contention=Contention(both_ways=0.5)) == [(0, 10), (0, 10)]


def test_tasks_share_device_memory_by_what_they_ask_for():
    #  6 + 4 bytes per ns are asked, 5 are there: both at half speed, the third task as ever.
    #  a  [0 ................... 20)              10 ns alone
    #  b  [0 ................... 20  25)          15 ns alone: 10 done by 20
    #  c  [0   8)                                 asks for nothing
    tasks = [Task("a", 10, hbm_bytes=60), Task("b", 15, hbm_bytes=60), Task("c", 8)]
    shared = Contention(hbm_bytes_per_ns=5.0)
    assert spans(tasks, contention=shared) == [(0, 20), (0, 25), (0, 8)]


def test_a_copy_that_the_link_slows_asks_less_of_device_memory():
    tasks = [Task("u", 10, hbm_bytes=40, link="h2d"), Task("d", 10, hbm_bytes=40, link="d2h")]
    #  8 bytes per ns alone, 4 as both directions run: memory is not short
    contention = Contention(both_ways=0.5, hbm_bytes_per_ns=4.0)
    assert spans(tasks, contention=contention) == [(0, 20), (0, 20)]


def test_an_end_on_a_nanosecond_stays_there():
    #  4 ns at 0.8, which no binary fraction is, take 5
    tasks = [Task("u", 4, link="h2d"), Task("d", 99, link="d2h")]
    assert spans(tasks, contention=Contention(both_ways=0.8))[0] == (0, 5)


def test_an_end_between_two_nanoseconds_is_rounded_up_for_all():
    #  7 ns at 0.75 take 9 1/3
    tasks = [Task("u", 7, link="h2d"), Task("d", 99, link="d2h"), Task("c", 1, (0,))]
    assert spans(tasks, contention=Contention(both_ways=0.75))[::2] == [(0, 10), (10, 11)]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        pytest.param([Task("a", 1, (0,))], "task 0 waits for 0", id="itself"),
        pytest.param([Task("a", 1, (1,)), Task("b", 1)], "task 0 waits for 1", id="later"),
        pytest.param([Task("a", 1, (-1,))], "task 0 waits for -1", id="none"),
        pytest.param([Task("a", 1, released_by=0)], "task 0 is released by 0", id="release"),
        pytest.param([Task("a", -1)], "task 0 has a negative", id="duration"),
        pytest.param([Task("a", 1, release_ns=-1)], "task 0 has a negative", id="release-time"),
    ],
)
def test_what_cannot_run_is_refused(tasks, message):
    with pytest.raises(ValueError, match=message):
        simulate(tasks)


@pytest.mark.parametrize("options", [{"both_ways": 0.0}, {"both_ways": 1.1}, {"hbm": 0.0}])
def test_a_contention_that_is_no_speed_is_refused(options):
    with pytest.raises(ValueError, match="must be"):
        Contention(options.get("both_ways", 1.0), options.get("hbm"))


def test_nothing_takes_no_time():
    assert spans([]) == spans([], contention=Contention(0.5)) == []


# --- For all ---


@st.composite
def some_tasks(draw):
    tasks = []
    for position in range(draw(st.integers(1, 12))):
        earlier = st.integers(0, position - 1) if position else st.just(-1)
        stream = draw(st.sampled_from(["compute", "h2d", "d2h"]))
        tasks.append(
            Task(
                stream,
                draw(st.integers(0, 20)),
                tuple(draw(st.sets(earlier, max_size=3)) if position else ()),
                draw(st.integers(0, 15)),
                hbm_bytes=draw(st.integers(0, 200)),
                link=stream if stream != "compute" else "",
                released_by=draw(st.one_of(st.just(-1), earlier)),
            )
        )
    return tasks


contentions = st.builds(
    Contention, st.sampled_from([0.3, 0.7, 1.0]), st.sampled_from([None, 3.0, 10.0])
)
options = st.fixed_dictionaries(
    {
        "gap_ns": st.integers(0, 3),
        "wait_ns": st.integers(0, 3),
        "contention": st.one_of(st.none(), contentions),
    }
)


@given(some_tasks(), options)
def test_no_task_starts_before_its_inputs_end_and_no_stream_overlaps_itself(tasks, options):
    when = spans(tasks, **options)
    for task, (start, end) in zip(tasks, when, strict=True):
        assert end - start >= task.duration_ns
        since = when[task.released_by][1] if task.released_by >= 0 else 0
        assert start >= since + task.release_ns
        for needed in task.after:
            other = tasks[needed].stream != task.stream
            assert start >= when[needed][1] + other * options["wait_ns"]
    for stream in {task.stream for task in tasks}:
        own = [span for task, span in zip(tasks, when, strict=True) if task.stream == stream]
        assert all(end + options["gap_ns"] <= start for (_, end), (start, _) in pairwise(own))


@given(some_tasks(), options)
def test_each_task_starts_as_soon_as_something_allows_it(tasks, options):
    when = spans(tasks, **options)
    latest = {}
    for position, (task, (start, _)) in enumerate(zip(tasks, when, strict=True)):
        since = when[task.released_by][1] if task.released_by >= 0 else 0
        allowed = [since + task.release_ns]
        allowed += [
            when[n][1] + (tasks[n].stream != task.stream) * options["wait_ns"] for n in task.after
        ]
        if task.stream in latest:
            allowed.append(when[latest[task.stream]][1] + options["gap_ns"])
        assert start == max(allowed)
        latest[task.stream] = position


@given(some_tasks(), options)
def test_the_whole_takes_at_least_as_long_as_its_longest_chain(tasks, options):
    chain = []
    for task in tasks:
        chain.append(task.duration_ns + max((chain[n] for n in task.after), default=0))
    assert max(end for _, end in spans(tasks, **options)) >= max(chain)


@given(some_tasks(), st.data())
def test_without_contention_less_waiting_and_less_work_are_never_later(tasks, data):
    which = data.draw(st.integers(0, len(tasks) - 1))
    task = tasks[which]
    if task.after and data.draw(st.booleans()):
        easier = task._replace(after=task.after[1:])
    else:
        easier = task._replace(duration_ns=task.duration_ns // 2)
    eased = [*tasks[:which], easier, *tasks[which + 1 :]]
    assert (simulate(eased)[1] <= simulate(tasks)[1]).all()


@given(some_tasks(), contentions)
def test_contention_never_makes_anything_earlier(tasks, contention):
    assert (simulate(tasks, contention=contention)[1] >= simulate(tasks)[1]).all()


@given(some_tasks())
def test_contention_that_costs_nothing_changes_nothing(tasks):
    assert spans(tasks, contention=Contention(1.0, 1e9)) == spans(tasks)
