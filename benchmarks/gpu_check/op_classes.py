"""Time of a step by class of operation, and a prediction held against a measurement by it."""

import re
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.gpu_check.steps import Measured

__all__ = ["CLASSES", "class_of_kernel", "compared", "operations"]

CLASSES = ("gemm", "attention", "fusion", "collective", "h2d", "d2h", "copy")
"""``fusion`` is every other kernel, ``copy`` are copies within the device and memsets."""

SHOWN = 40  # operations, the longest first

_ATTENTION = re.compile(r"fmha|flash|sdpa|attention", re.IGNORECASE)
_GEMM = re.compile(r"gemm|gemv|matmul|nvjet|cutlass|xmma|cublas|splitk", re.IGNORECASE)
_OP = ["class", "hlo_op", "op_name"]
_NOTHING = {"ns": 0.0, "rows": 0.0}


def class_of_kernel(kind: str, name: str, hlo_op: str) -> str:
    """Return the class of a kernel.

    JAX's path does not tell: products of the attention layer have its name in theirs.

    Parameters
    ----------
    kind : str
        One of `nsysoffload.timeline.kernels.KINDS`.
    name, hlo_op : str
        Of the kernel, and of XLA's operation; the latter may be empty.

    Examples
    --------
    >>> class_of_kernel("compute", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma", "")
    'attention'
    >>> class_of_kernel("compute", "nvjet_hsh_192x192_64x4_1x2_h_bz_coopB_TNN", "custom-call.3")
    'gemm'
    """
    if kind == "collective":
        return "collective"
    if kind == "other":
        return "copy"
    for found, signs in (("attention", _ATTENTION), ("gemm", _GEMM)):
        if signs.search(name) or signs.search(hlo_op):
            return found
    return "fusion"


def operations(measured: Measured) -> pd.DataFrame:
    """Return what ran in the steps.

    Returns
    -------
    DataFrame
        A row per row of the GPU: ``step``, a position among the chosen steps, ``class``, ``hlo_op``
        and ``op_name``, empty where they are not known, and ``ns``, its duration.
    """
    device = measured.device
    kernels = _named(measured, device.kernels)
    names = zip(kernels["kind"], kernels["name"], kernels["hlo_op"], strict=True)
    kernels["class"] = [class_of_kernel(*each) for each in names]
    transfers = _named(measured, device.transfers)
    transfers["class"] = transfers["direction"].astype(object)
    rest = _named(measured, device.rest).assign(**{"class": "copy"})
    rows = pd.concat([each[["step", *_OP, "ns"]] for each in (kernels, transfers, rest)])
    return rows[rows["step"] >= 0].reset_index(drop=True)


def _named(measured: Measured, rows: pd.DataFrame) -> pd.DataFrame:
    names = measured.timeline.names
    thunk = names.thunk[rows["call"].to_numpy()]
    of_thunk = {key: np.append(names.thunks[key].to_numpy(), "")[thunk] for key in _OP[1:]}
    lasted = rows["end_ns"] - rows["start_ns"]
    return rows.assign(step=measured.steps.of(rows), ns=lasted, **of_thunk)


def compared(measured: Measured, predicted: Measured) -> dict[str, Any]:
    """Hold a prediction against a measurement.

    Times are medians over the steps of the time that the rows of a step took, added up.

    Returns
    -------
    dict
        ``classes``: per class the times of all its operations; ``same_operations``: per class of
        those with equal names in HLO and in JAX, which both have, and the longest of them.
    """
    rows = [operations(each) for each in (measured, predicted)]
    steps = [len(each.steps) for each in (measured, predicted)]
    ours, theirs = (_per_step(*each, _OP) for each in zip(rows, steps, strict=True))
    same = [op for op in ours if op in theirs and op[1]]
    shared = [each[[op in set(same) for op in _ops(each)]] for each in rows]
    longest = sorted(same, key=lambda op: -ours[op]["ns"])[:SHOWN]
    return {
        "classes": _by_class(rows, steps),
        "same_operations": {
            "classes": _by_class(shared, steps),
            "longest": [
                {"hlo_op": op[1], "class": op[0], **_pair(ours[op], theirs[op])} for op in longest
            ],
        },
    }


def _by_class(rows: list[pd.DataFrame], steps: list[int]) -> dict[str, Any]:
    ours, theirs = (_per_step(*each, ["class"]) for each in zip(rows, steps, strict=True))
    return {
        name: _pair(ours.get((name,), _NOTHING), theirs.get((name,), _NOTHING))
        for name in CLASSES
        if (name,) in ours or (name,) in theirs
    }


def _ops(rows: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(rows[_OP].itertuples(index=False, name=None))


def _per_step(rows: pd.DataFrame, steps: int, by: list[str]) -> dict[Any, dict[str, float]]:
    """Return by operation the median over all steps of its time and of its rows in a step."""
    code = rows.groupby(by, sort=False).ngroup().to_numpy()
    keys = rows[by].drop_duplicates().itertuples(index=False, name=None)  # in order of the codes
    counts, sums = np.zeros((2, code.max(initial=-1) + 1, steps))
    np.add.at(counts, (code, rows["step"]), 1)
    np.add.at(sums, (code, rows["step"]), rows["ns"])
    medians = zip(np.median(sums, axis=1), np.median(counts, axis=1), strict=True)
    return {key: {"ns": ns, "rows": n} for key, (ns, n) in zip(keys, medians, strict=True)}


def _pair(ours: dict[str, float], theirs: dict[str, float]) -> dict[str, float | int | None]:
    return {
        "measured_ns": round(ours["ns"]),
        "predicted_ns": round(theirs["ns"]),
        "measured_over_predicted": round(ours["ns"] / theirs["ns"], 3) if theirs["ns"] else None,
        "measured_rows": round(ours["rows"]),
        "predicted_rows": round(theirs["rows"]),
    }
