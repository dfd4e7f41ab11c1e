"""An array chosen for each row by a number in its data, written so that rows stay apart and derivatives are known."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.typed_list.basic import MakeList

#: So many arrays are written as one switch within another at most.
_MOST = 100


def chosen_by_switches(node: Apply, which: Variable, rebuild: Callable[[Variable], Variable]) -> Variable | None:
    """Return what `pt.choose` chooses as one switch within another, or None for a number of arrays that is not known.

    `which` are the numbers of the arrays for a batch, and `rebuild` makes a graph again for it.  A number of no array,
    where that is an error, gives NaN, so that its row is named as one without a finite log-likelihood.
    """
    given = node.inputs[1]
    if given.owner is not None and isinstance(given.owner.op, MakeList):
        arrays = [rebuild(i) for i in given.owner.inputs]
    elif (n := given.type.shape[0]) is not None and n <= _MOST:
        arrays = [rebuild(given)[i] for i in range(n)]
    else:
        return None
    n, mode, dtype = len(arrays), node.op.mode, node.outputs[0].type.dtype
    if mode == "raise" and not dtype.startswith("float"):
        return None  # whole numbers have no NaN
    which = which % n if mode == "wrap" else pt.clip(which, 0, n - 1) if mode == "clip" else which
    return reduce(
        lambda others, own: pt.switch(pt.eq(which, own[0]), own[1], others),
        enumerate(arrays),
        pt.constant(np.nan, dtype=dtype) if mode == "raise" else arrays[-1],
    )
