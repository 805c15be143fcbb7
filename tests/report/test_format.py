import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoffload.report.format import (
    bandwidth,
    command,
    count,
    duration,
    labels,
    limit,
    moment,
    plain,
    share,
    shorten,
    size,
    span,
)
from tests.report.examples import HOSTILE, cannot_tell, hostile, one_device, ranks

TIMES = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9}
SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}


@pytest.mark.parametrize(
    ("time_ns", "shown"),
    [
        pytest.param(0, "0 ns", id="none"),
        pytest.param(999, "999 ns", id="ns-are-exact"),
        pytest.param(1000, "1.00 µs", id="us"),
        pytest.param(999_499, "999 µs", id="below-a-thousand"),
        pytest.param(999_500, "1.00 ms", id="rounds-up-into-the-next-unit"),
        pytest.param(12_345_678, "12.3 ms", id="ms"),
        pytest.param(1_000_000_000, "1.00 s", id="s"),
        pytest.param(26_000_000_000_000, "26,000 s", id="no-unit-above-s"),
    ],
)
def test_a_duration_has_three_digits_in_the_unit_that_suits_it(time_ns, shown):
    assert duration(time_ns) == shown


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        pytest.param(None, "–", id="unknown"),
        pytest.param(0, "0 B", id="none"),
        pytest.param(1_023, "1.02 kB", id="decimal"),
        pytest.param(1_610_612_736, "1.61 GB", id="gb"),
        pytest.param(10**19, "10,000 PB", id="huge"),
    ],
)
def test_a_size_is_in_decimal_units(size_bytes, shown):
    assert size(size_bytes) == shown


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [
        pytest.param(None, "–", id="unknown"),
        pytest.param(0, "0 %", id="none"),
        pytest.param(0.0004, "<0.1 %", id="hardly-any"),
        pytest.param(0.0005, "0.1 %", id="a-little"),
        pytest.param(0.834, "83.4 %", id="most"),
        pytest.param(0.9994, "99.9 %", id="nearly-all"),
        pytest.param(0.9996, ">99.9 %", id="all-but-a-little"),
        pytest.param(1, "100 %", id="all"),
    ],
)
def test_only_none_and_all_are_shown_as_none_and_all(fraction, shown):
    assert share(fraction) == shown


@pytest.mark.parametrize(
    ("gbps", "shown"),
    [
        pytest.param(None, "–", id="unknown"),
        pytest.param(0.0, "0 GB/s", id="none"),
        pytest.param(0.0001, "<0.001 GB/s", id="tiny"),
        pytest.param(0.01234, "0.0123 GB/s", id="slow"),
        pytest.param(25.84, "25.8 GB/s", id="pcie"),
        pytest.param(419.6, "420 GB/s", id="c2c"),
        pytest.param(8000.0, "8,000 GB/s", id="hbm"),
    ],
)
def test_a_bandwidth_is_always_in_gb_per_second(gbps, shown):
    assert bandwidth(gbps) == shown


@pytest.mark.parametrize(
    ("upto_bytes", "shown"),
    [
        pytest.param(None, "larger", id="open"),
        pytest.param(0, "0 B", id="zero"),
        pytest.param(1000, "1,000 B", id="no-power-of-two"),
        pytest.param(65536, "64 KiB", id="kib"),
        pytest.param(2**30, "1 GiB", id="gib"),
    ],
)
def test_the_end_of_a_size_class_is_exact(upto_bytes, shown):
    assert limit(upto_bytes) == shown


def test_a_moment_is_cut_to_microseconds_on_both_sides_of_zero():
    assert moment(1_234_567_999) == "1.234567 s"
    assert moment(-1_500_000_000) == "-1.500000 s"


def test_counts_have_their_thousands_apart_and_ranges_an_en_dash():
    assert count(1234567) == "1,234,567"
    assert span((12.0, 13.5)) == "12–13.5 GB/s"


@given(st.integers(0, 10**18))
def test_a_shown_duration_is_within_half_a_digit_of_the_true_one(time_ns):
    number, unit = duration(time_ns).split(" ")
    shown_ns = float(number.replace(",", "")) * TIMES[unit]
    assert abs(shown_ns - time_ns) <= 0.00501 * time_ns


@given(st.integers(0, 10**18))
def test_a_shown_size_has_at_most_three_digits_below_a_thousand(size_bytes):
    number, unit = size(size_bytes).split(" ")
    assert re.fullmatch(r"\d{1,3}|\d\.\d\d|\d\d\.\d|1,000", number)
    assert abs(float(number.replace(",", "")) * SIZES[unit] - size_bytes) <= 0.00501 * size_bytes


@given(st.floats(0, 1))
def test_a_share_never_rounds_to_none_or_all(fraction):
    assert (share(fraction) == "0 %") == (fraction == 0)
    assert (share(fraction) == "100 %") == (fraction == 1)


@given(st.text())
def test_plain_text_is_one_printable_line_that_can_be_encoded(text):
    assert plain(text).isprintable()
    assert plain(text).encode().decode() == plain(text)
    assert len(plain(text)) <= len(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param(" void  gemm<T>(int)\n", "void gemm<T>(int)", id="white-space"),
        pytest.param("\x1b[31mred", "\ufffd[31mred", id="escape"),
        pytest.param("\x9b2J", "\ufffd2J", id="c1"),
        pytest.param("a\u202eb", "a\ufffdb", id="right-to-left"),
        pytest.param("\udc80", "\ufffd", id="surrogate"),
        pytest.param("µ 🚀", "µ 🚀", id="unicode"),
    ],
)
def test_plain_text_keeps_what_is_harmless(text, shown):
    assert plain(text) == shown


@given(st.text(), st.integers(1, 20))
def test_a_shortened_name_keeps_both_ends(text, width):
    short = shorten(text, width)
    head, _, tail = short.partition("…")
    assert short == text if len(text) <= width else len(short) == width
    assert text.startswith(head) or "…" in text
    assert text.endswith(tail) or "…" in text


def test_a_device_is_named_by_its_ordinal_and_its_process_only_where_ordinals_repeat():
    first, second = cannot_tell().devices
    assert labels((first, second)) == {first.id: "0", second.id: "1"}
    twin = replace(second, ordinal=0, pid=None)
    assert labels((first, twin)) == {first.id: "0 (pid 4242)", second.id: "0 (pid –)"}


def test_the_command_repeats_options_and_traces_and_quotes_them():
    options = {"device": [0, "GPU 1"], "not_compute": "a|b", "debug": True}
    report = one_device()
    report = replace(report, tool=replace(report.tool, options=options))
    words = "--device 0 --device 'GPU 1' --not-compute 'a|b' --debug"
    assert command(report) == f"nsysoffload analyze step.sqlite {words}"
    assert command(ranks()).startswith("nsysoffload analyze rank0.sqlite rank1.sqlite rank2.")


def test_the_command_is_one_printable_line_whatever_the_names():
    assert "\n" in HOSTILE
    assert command(hostile()).isprintable()
