"""Names of copies in the timeline."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from nsysoffload.report.labels import transfer_labels


def device(*rows: tuple[int, int, int, int], ops: tuple[str, ...]) -> Any:
    """What is looked at of a device; rows of (thunk, operation, direction, step)."""
    thunk, op, way, step = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return SimpleNamespace(
        measurements=SimpleNamespace(transfers=rows, transfer_op=op, way=way, ops=ops),
        transfer_thunk=thunk,
        transfer_step=step,
        steps=range(2),
    )


def labels(found: Any) -> list[str | None]:
    return [None if code < 0 else found.categories[code] for code in found.codes]


def test_copies_of_an_operation_are_numbered_anew_in_each_step():
    #  step 0  load load save   step 1  load load
    load, save = (0, 0, 0), (1, 1, 1)
    rows = [(*load, 0), (*load, 0), (*save, 0), (*load, 1), (*load, 1)]
    assert labels(transfer_labels(device(*rows, ops=("load", "save")))) == (
        ["load, layer 0", "load, layer 1", "save", "load, layer 0", "load, layer 1"]
    )


def test_copies_without_an_operation_or_outside_of_the_steps_have_no_name():
    rows = [(-1, 1, 0, 0), (0, 0, 0, -1), (0, 0, 0, 1)]
    ops = ("load", "H2D, up to 64 KiB, stream 7")
    assert labels(transfer_labels(device(*rows, ops=ops))) == [None, None, "load"]


def test_operations_of_two_programs_may_share_a_name():
    found = transfer_labels(device((0, 0, 0, 0), (1, 1, 0, 0), ops=("load", "load")))
    assert labels(found) == ["load", "load"]
    assert list(found.categories) == ["load"]


def test_without_transfers_there_are_no_names():
    assert labels(transfer_labels(device(ops=()))) == []
