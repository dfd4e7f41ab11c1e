"""A scan of a model, written so that a batch of rows can be taken."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.scan.op import Scan
from pytensor.tensor.basic import infer_static_shape
from pytensor.tensor.subtensor import IncSubtensor

from pymc_austerity.compat import inner_graph
from pymc_austerity.likelihood.axis import NotRowWiseError

#: Makes a graph again for a batch of rows.
Rebuild = Callable[[Variable], Variable]
#: Takes values of the inputs of an op, and returns what makes the graph within it again with these.
Within = Callable[[Mapping[Variable, Variable]], Rebuild]

#: What a scan may have that carries nothing from one step to the next.
_OF_A_MAP = {"n_seqs", "n_nit_sot", "n_non_seqs"}
#: And what one may have that carries states: the values of a few steps before.
_OF_STATES = _OF_A_MAP | {"mit_sot_in_slices", "sit_sot_in_slices"}
#: Steps that are written out one after the other.  To compile them takes time in proportion.
MOST_STEPS = 100


def scan_of_batch(node: Apply, inputs: Sequence[Variable], rebuild: Rebuild, within: Within) -> list[Variable]:
    """Return the outputs of a scan of the model for a batch of rows, given its inputs for the batch.

    Without a state it becomes one operation on all steps.  With a state the steps are written out: whether its rows
    stay apart is then seen in the graph.
    """
    has = {f.name for f in fields(node.op.info) if getattr(node.op.info, f.name)}
    if has <= _OF_A_MAP:
        inner, outputs = inner_graph(node.op)
        outer = dict(zip(inner, [*node.op.outer_seqs(inputs), *node.op.outer_non_seqs(inputs)], strict=True))
        return list(vectorize_graph(outputs, replace=outer))
    if not has <= _OF_STATES:
        raise NotRowWiseError("a scan ends by a condition, or updates shared variables")
    (n_steps,) = infer_static_shape([inputs[0]])[1]
    if n_steps is None:
        raise NotRowWiseError("a scan carries a state from one step to the next, as from row to row")
    if n_steps > MOST_STEPS:
        raise NotRowWiseError(
            f"a scan carries a state over {n_steps} steps, and at most {MOST_STEPS} are written out to see whether its "
            "rows stay apart"
        )
    return _written_out(node, inputs, n_steps, rebuild, within)


def _written_out(
    node: Apply, inputs: Sequence[Variable], n_steps: int, rebuild: Rebuild, within: Within
) -> list[Variable]:
    op: Scan = node.op
    inner, inner_outputs = inner_graph(op)
    taps = [*op.info.mit_sot_in_slices, *op.info.sit_sot_in_slices]
    depths = [-min(of_state) for of_state in taps]
    filled = [*op.outer_mitsot(node.inputs), *op.outer_sitsot(node.inputs)]
    #: Entry t + depth of a state is its value after step t, counted from 0.
    states = [_before(array, depth, rebuild) for array, depth in zip(filled, depths, strict=True)]
    others: list[list[Variable]] = [[] for _ in range(op.info.n_nit_sot)]
    for t in range(n_steps):
        read = [state[t + d + tap] for state, d, own in zip(states, depths, taps, strict=True) for tap in own]
        given = [*(sequence[t] for sequence in op.outer_seqs(inputs)), *read, *op.outer_non_seqs(inputs)]
        step = within(dict(zip(inner, given, strict=True)))
        for values, output in zip([*states, *others], inner_outputs, strict=True):
            values.append(step(output))
    return [pt.stack(values) for values in [*states, *others]]


def _before(filled: Variable, depth: int, rebuild: Rebuild) -> list[Variable]:
    """Return the values of a state before the first step, which lie at the beginning of the array that a scan fills."""
    while filled.owner is not None and not isinstance(filled.owner.op, IncSubtensor):
        filled = filled.owner.inputs[0]
    values = rebuild(filled if filled.owner is None else filled.owner.inputs[1])
    return [values[i] for i in range(depth)]
