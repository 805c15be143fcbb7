import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.reader import read
from nsysoffload.trace.shapes import launch_of, shape_of
from nsysoffload.trace.tables import UNSET

blocks = st.tuples(st.integers(1, 1024), st.integers(1, 1024), st.integers(1, 64))
grids = st.tuples(st.integers(1, 2**31 - 1), st.integers(1, 65_535), st.integers(1, 65_535))
plain = st.tuples(st.integers(1, 65_535), st.just(1), st.just(1))


def launched(shape: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    columns = {name: int(v[0]) for name, v in launch_of(np.array([shape], dtype=np.int64)).items()}
    grid, block = ([columns[f"{name}{axis}"] for axis in "XYZ"] for name in ("grid", "block"))
    return tuple(grid), tuple(block)


@given(grids, blocks)
def test_a_launch_made_from_a_shape_has_that_shape(grid, block):
    shape = shape_of(grid, block)
    assert UNSET <= shape < 2**63
    assert shape_of(*launched(shape)) == shape


@given(st.tuples(plain, blocks), st.tuples(plain, blocks))
def test_flat_grids_have_one_shape_only_if_they_are_alike(one, other):
    assert (shape_of(*one) == shape_of(*other)) == (one == other)


def test_a_launch_of_one_thread_is_not_known():
    assert shape_of((1, 1, 1)) == UNSET
    assert launched(UNSET) == ((1, 1, 1), (1, 1, 1))


def shapes_read(tmp_path, sql: str = "") -> list[int]:
    file = (
        TraceBuilder()
        .kernel((0, 1), "a")
        .kernel((1, 2), "a", grid=(132, 4, 2))
        .write(tmp_path / "t.sqlite")
    )
    with closing(sqlite3.connect(file)) as db, db:
        db.executescript(sql)
    return read(file).kernels["shape"].tolist()


def test_shapes_survive_writing_and_reading(tmp_path):
    assert shapes_read(tmp_path) == [UNSET, shape_of((132, 4, 2))]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        pytest.param(
            "UPDATE {t} SET gridX = 6, gridY = 3, gridZ = 5, blockX = 128, blockY = 2, blockZ = 3",
            [shape_of((6, 3, 5), (128, 2, 3))] * 2,
            id="all-axes",
        ),
        pytest.param("ALTER TABLE {t} DROP COLUMN blockZ", [UNSET] * 2, id="no-such-column"),
        pytest.param(
            "ALTER TABLE {t} DROP COLUMN gridY; ALTER TABLE {t} ADD COLUMN gridY INTEGER",
            [UNSET] * 2,
            id="null",
        ),
    ],
)
def test_shapes_are_of_the_grid_and_the_block(tmp_path, sql, expected):
    assert shapes_read(tmp_path, sql.format(t="CUPTI_ACTIVITY_KIND_KERNEL")) == expected
