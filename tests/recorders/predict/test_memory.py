from dataclasses import replace

import pytest

from nsysoffload.hardware import TARGETS
from nsysoffload.recorders.predict.memory import (
    SLOP,
    Fit,
    Memory,
    planned_bytes,
    roomy_slop,
    slop_of,
)

GIB = 1 << 30
#  device   arguments 40, new ones written over 30 of them, 6 more outputs, 50 in between: 96
#  host     arguments 20, all replaced, 10 offloaded: 30
STEP = Memory(
    argument_bytes=40,
    output_bytes=36,
    alias_bytes=30,
    temp_bytes=50,
    host_argument_bytes=20,
    host_output_bytes=20,
    host_alias_bytes=20,
    host_temp_bytes=10,
)


def test_donated_arguments_count_once_on_either_side():
    assert (STEP.device_bytes, STEP.host_bytes) == (96, 30)


@pytest.mark.parametrize(
    ("device", "host", "fit"),
    [
        pytest.param(75, 64 * GIB, Fit(True, True, True), id="just"),
        pytest.param(76, 64 * GIB + 1, Fit(False, True, False), id="a byte more"),
        pytest.param(100, 0, Fit(False, True, True), id="the whole device"),
        pytest.param(101, 0, Fit(False, False, True), id="more than the device"),
    ],
)
def test_a_program_fits_up_to_the_last_byte(device, host, fit):
    target = replace(TARGETS["h100"], memory_bytes=100)
    assert Memory(device, 0, 0, 0, host, 0, 0, 0).fits(target) == fit


def test_the_scheduler_plans_with_a_share_of_what_arguments_leave_of_four_fifths():
    #  arguments and results 46; four fifths of 200 are 160: 114 left, of which 95 %
    target = replace(TARGETS["h100"], memory_bytes=200)
    lasting = STEP.lasting_bytes
    assert planned_bytes(lasting, target) == 108
    assert planned_bytes(lasting, target, 200) == 228
    #  the whole device: 154 of those 114; a limit of 180: 134
    assert roomy_slop(lasting, target, 200) == 135
    assert roomy_slop(lasting, target, 180) == 117
    assert planned_bytes(lasting, target, 135) <= 200 - 46


def test_arguments_may_leave_the_scheduler_nothing():
    target = replace(TARGETS["h100"], memory_bytes=50)
    lasting = STEP.lasting_bytes
    assert (planned_bytes(lasting, target), roomy_slop(lasting, target, 50)) == (0, 0)


def test_the_last_slop_factor_among_flags_holds():
    assert slop_of(["--xla_a=1"]) == 95
    assert slop_of([f"{SLOP}80", "--xla_a=1", f"{SLOP}120"]) == 120
