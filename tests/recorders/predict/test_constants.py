import ast
import json
import re
from pathlib import Path

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.hardware import LINKS, TARGETS
from nsysoffload.recorders import predict as package
from nsysoffload.recorders.predict.constants import EXPECTED, constants_for, corners, measured

GB200 = constants_for(TARGETS["gb200"])
NAMES = {constant.name for constant in GB200}


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.key)
def test_every_constant_is_in_order_and_says_where_it_comes_from(target):
    for constant in constants_for(target):
        assert 0 < constant.low <= constant.expected <= constant.high, constant.name
        assert constant.origin and constant.unit
        assert constant.high <= 1 or "share" not in constant.unit


# Modules that turn a schedule into times, and what their formulas hold: units (1000 ns a us), the
# parts of products, of rings and of fixed point; the model's numbers stand in `constants`.
FORMULAS = {
    "costs": {0, 1, 1000},
    "traffic": {0, 1, 2},
    "products": {0, 1, 2, 3, 4},
    "collectives": {1, 2},
    "operations": {0, 1, 2},
    "simulator": {0, 1, 30},
    "lowering": {0, 1, 4000},
}


@pytest.mark.parametrize(("module", "known"), FORMULAS.items())
def test_no_number_of_the_model_stands_beside_the_constants(module, known):
    tree = ast.parse(Path(package.__path__[0], f"{module}.py").read_text(encoding="utf-8"))
    numbers = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) in (int, float)
    }
    assert numbers <= known


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.key)
def test_no_constant_comes_from_a_step_that_the_model_is_held_against(target):
    origins = [constant.origin for constant in constants_for(target)]
    link = LINKS[target.link]
    sources = [*origins, target.source, link.source, link.h2d.source, link.d2h.source]
    told = " ".join(source for source in sources if source)
    assert not re.search(r"DeepSeek|405B|671B|578|908|MaxText|TFLOP/s/device", told)


def test_the_corners_are_the_expected_sheet_and_each_mix_of_slow_and_fast():
    sheets = corners(GB200)
    assert [sheet.name for sheet in sheets] == [
        EXPECTED,
        "slow compute, slow host link, slow collectives",
        "slow compute, slow host link, fast collectives",
        "slow compute, fast host link, slow collectives",
        "slow compute, fast host link, fast collectives",
        "fast compute, slow host link, slow collectives",
        "fast compute, slow host link, fast collectives",
        "fast compute, fast host link, slow collectives",
        "fast compute, fast host link, fast collectives",
    ]
    assert all(set(sheet.values) == NAMES for sheet in sheets)


def test_slow_is_a_low_rate_and_a_high_latency():
    slow, fast = corners(GB200)[1], corners(GB200)[-1]
    for constant in GB200:
        time = constant.unit == "us"
        assert slow[constant.name] == (constant.high if time else constant.low)
        assert fast[constant.name] == (constant.low if time else constant.high)


def test_times_of_a_sheet_come_in_whole_nanoseconds():
    sheet = corners(GB200)[0]
    assert sheet.ns("kernel_gap") == round(sheet["kernel_gap"] * 1000)


def test_a_measured_number_leaves_no_range(tmp_path):
    file = tmp_path / "measured.json"
    file.write_text('{"gemm_efficiency": 0.7, "h2d": {"low": 180, "expected": 190, "high": 200}}')
    found = {c.name: c for c in measured(GB200, file)}
    gemm, h2d = found["gemm_efficiency"], found["h2d"]
    assert (gemm.low, gemm.expected, gemm.high, gemm.origin) == (
        *[0.7] * 3,
        "measured: measured.json",
    )
    assert (h2d.low, h2d.expected, h2d.high) == (180.0, 190.0, 200.0)
    assert found["d2h"] in GB200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{", "cannot be read as JSON", id="no-json"),
        pytest.param("[1]", "holds no object", id="no-object"),
        pytest.param('{"gem": 0.7}', "names 'gem'; choose from attention", id="unknown"),
        pytest.param('{"gemm_efficiency": "0.7"}', "has to be a number", id="text"),
        pytest.param('{"gemm_efficiency": true}', "has to be a number", id="truth"),
        pytest.param('{"gemm_efficiency": {"low": 1}}', "has to be a number", id="part"),
        pytest.param('{"gemm_efficiency": 0}', "from 0.001 to 1", id="zero"),
        pytest.param('{"gemm_efficiency": 1.2}', "from 0.001 to 1", id="more-than-all"),
        pytest.param('{"h2d": NaN}', "from 0.001 to 1e", id="not-a-number"),
        pytest.param('{"h2d": Infinity}', "from 0.001 to 1e", id="infinite"),
        pytest.param(
            '{"h2d": {"low": 2, "expected": 1, "high": 3}}', "low <= expected", id="order"
        ),
    ],
)
def test_measured_constants_that_make_no_sense_are_refused(tmp_path, text, message):
    file = tmp_path / "measured.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        measured(GB200, file)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"gone.json cannot be read"):
        measured(GB200, tmp_path / "gone.json")


def test_every_name_can_be_measured(tmp_path):
    file = tmp_path / "measured.json"
    file.write_text(json.dumps({name: 0.5 for name in NAMES}))
    assert {c.expected for c in measured(GB200, file)} == {0.5}


def test_gpus_that_share_a_link_get_no_more_than_their_half_of_it():
    def highest(target, devices):
        return {c.name: c.high for c in constants_for(TARGETS[target], devices)}["h2d"]

    assert (highest("gb200", 1), highest("gb200", 8)) == (350.0, 225.0)
    assert highest("gh200", 8) == highest("gh200", 1)
