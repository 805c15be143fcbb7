import pytest

from nsysoffload.errors import UsageError
from nsysoffload.recorders.nsys.options import HARDWARE, SOFTWARE, Range, compose, parse_range
from nsysoffload.recorders.nsys.tool import Nsys

HELP = """usage: nsys profile [<args>] [application] [<application args>]

\t-c, --capture-range=

\t   Possible values are none, cudaProfilerApi, nvtx, hotkey.

\t--capture-range-end=

\t   Possible values are 'none', 'stop', 'stop-shutdown', 'repeat[:N]'.

\t--cpuctxsw=

\t   Possible values are 'process-tree', 'system-wide' and 'none'.

\t--cuda-event-trace=

\t   Possible values are 'auto', 'true' or 'false'.

\t--cuda-graph-trace=

\t   Possible values are '<granularity>[:<launch origin>]'. Granularity is 'graph' or 'node'.

\t-d, --duration=

\t   Collection duration in seconds, default is 0 seconds.

\t-y, --delay=

\t   Collection start delay in seconds.

\t--discard-environment=

\t   Possible values are 'true' or 'false'.

\t--kill=

\t   Possible values are 'none', 'sigterm', 'sigkill' or a signal number.

\t-p, --nvtx-capture=

\t   Range that begins the collection.

\t-s, --sample=

\t   Possible values are 'process-tree', 'system-wide' or 'none'.

\t-t, --trace=

\t   Possible values are 'cuda', 'cuda-sw', 'nvtx', 'osrt', 'none'.
"""
NSYS = Nsys("nsys", "2025.5.1", HELP)
API = Range("profiler-api")
USUAL = [
    "--trace=cuda,nvtx",
    "--cuda-graph-trace=node",
    "--cuda-event-trace=false",
    "--sample=none",
    "--cpuctxsw=none",
    "--discard-environment=true",
]


def composed(nsys=NSYS, range_=API, **kwargs):
    profile = compose(nsys, range_, "out", trace=kwargs.pop("trace", HARDWARE), **kwargs)
    assert profile.words[:2] == ("nsys", "profile")
    assert profile.words[-1] == "--output=out"
    return list(profile.words[2:-1]), profile.left_out


def without(option):
    """Return an nsys that does not know an option."""
    parts = HELP.split("\n\n\t")
    return Nsys("nsys", "2021.5.2", "\n\n\t".join(p for p in parts if option + "=" not in p))


def test_the_usual_options_are_asked_for():
    words, left_out = composed()
    assert words == [*USUAL, "--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
    assert left_out == ()


@pytest.mark.parametrize(
    ("range_", "more"),
    [
        (Range("whole"), []),
        (
            Range("nvtx", "step"),
            ["--capture-range=nvtx", "--capture-range-end=stop", "--nvtx-capture=step@*"],
        ),
        (Range("delay", delay_s=60), ["--delay=60"]),
        (
            Range("delay", delay_s=60.5, duration_s=5),
            ["--delay=60.5", "--duration=5", "--kill=none"],
        ),
    ],
)
def test_each_range_has_its_options(range_, more):
    assert composed(range_=range_)[0] == [*USUAL, *more]


def test_an_option_that_is_not_known_is_left_out_and_named():
    words, left_out = composed(without("--discard-environment"))
    assert left_out == ("--discard-environment=true",)
    assert not any("discard" in word for word in words)


def test_a_value_that_is_not_listed_is_left_out():
    nsys = Nsys("nsys", "2021", HELP.replace("'graph' or 'node'", "'graph'"))
    assert composed(nsys)[1] == ("--cuda-graph-trace=node",)


def test_an_option_that_lists_no_values_takes_any():
    nsys = Nsys("nsys", "2023", "\n".join(f"    {word.partition('=')[0]}=" for word in USUAL))
    assert composed(nsys, Range("whole")) == (USUAL, ())


def test_without_an_end_of_the_range_nothing_is_killed():
    words, left_out = composed(without("--capture-range-end"))
    assert words[-2:] == ["--capture-range=cudaProfilerApi", "--kill=none"]
    assert left_out == ("--capture-range-end=stop",)


def test_what_the_recording_hangs_on_is_not_left_out():
    with pytest.raises(UsageError, match=r"2021.5.2 does not know --capture-range="):
        composed(without("--capture-range"))


def test_software_tracing_is_asked_for_where_it_is_offered():
    assert composed(trace=SOFTWARE)[0][0] == "--trace=cuda-sw,nvtx"
    old = Nsys("nsys", "2022.4", HELP.replace("'cuda-sw', ", ""))
    with pytest.raises(UsageError, match="does not know --trace=cuda-sw,nvtx"):
        composed(old, trace=SOFTWARE)


@pytest.mark.parametrize("more", ["-t cuda,nvtx,osrt", "-tcuda", "--trace=cuda", "--trace cuda"])
def test_the_users_options_replace_ours(more):
    words, _ = composed(more=f"{more} --wait=primary")
    assert sum(word.startswith(("-t", "--trace")) for word in words) == 1
    assert "--wait=primary" in words


@pytest.mark.parametrize("more", ["ls", "--", "-tcuda ls", "--wait=all ls", "--wait all ls"])
def test_a_word_that_is_no_option_would_be_the_program_and_is_refused(more):
    with pytest.raises(UsageError, match="--nsys-args takes options alone, and '(ls|--)' is none"):
        composed(more=more)


@pytest.mark.parametrize("more", ["-o x", "--output=x", "'open"])
def test_the_users_options_do_not_move_the_output(more):
    with pytest.raises(UsageError, match="--nsys-args"):
        composed(more=more)


@pytest.mark.parametrize(
    ("words", "range_"),
    [
        ((None, None, None), Range("whole")),
        (("whole", None, None), Range("whole")),
        (("profiler-api", None, None), API),
        (("nvtx:a:b@dom", None, None), Range("nvtx", "a:b@dom")),
        ((None, 1.0, None), Range("delay", delay_s=1.0)),
    ],
)
def test_a_range_is_read(words, range_):
    assert parse_range(*words) == range_


@pytest.mark.parametrize("words", [("nvtx", None, None), ("x", None, None), ("whole", 1.0, None)])
def test_what_is_no_range_is_refused(words):
    with pytest.raises(UsageError):
        parse_range(*words)
