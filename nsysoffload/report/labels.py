"""What copies are called in the timeline: their XLA operation, and which of its runs they are."""

import numpy as np
import pandas as pd

from nsysoffload.diagnosis.examine import Examined
from nsysoffload.timeline.ranges import occurrences
from nsysoffload.timeline.timeline import DIRECTIONS

__all__ = ["transfer_labels"]


def transfer_labels(device: Examined) -> pd.Categorical:
    """Name the transfers of a device.

    Parameters
    ----------
    device : Examined
        The device.

    Returns
    -------
    Categorical, shape (n,)
        ``copy-start.3, layer 4`` for each transfer of the chosen steps whose XLA operation is
        known and runs more than once in a step, the operation alone where it does not, and nothing
        for all other transfers.
    """
    m = device.measurements
    known = np.flatnonzero((device.transfer_thunk >= 0) & (device.transfer_step >= 0))
    op = m.transfer_op[known]
    group = op * len(DIRECTIONS) + m.way[known]
    layer = occurrences(group * len(device.steps) + device.transfer_step[known])
    layer = np.where(np.isin(group, group[layer > 0]), layer, -1)
    found, label = np.unique(np.column_stack([op, layer]), axis=0, return_inverse=True)
    texts = [m.ops[n] + f", layer {nth}" * (nth >= 0) for n, nth in found.tolist()]
    of_text, names = pd.factorize(np.array(texts, dtype=object))  # programs may share names
    codes = np.full(len(m.transfers), -1, dtype=np.int64)
    codes[known] = of_text[label]
    return pd.Categorical.from_codes(codes, categories=pd.Index(names))
