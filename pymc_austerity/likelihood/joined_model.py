"""A model in which observed variables that are alike but for their data and parameters are one.

The loop ``for k in range(150): pm.Normal(f"y{k}", pm.Normal(f"u{k}", mu, s), 1, observed=y[k])`` is read as

    u = pm.Normal("u0 to u149", mu, s, shape=150)
    pm.Normal("y0 to y149", u[outcome], 1, observed=np.concatenate(y))

with the number of its outcome for each row, which costs as much as one of them does.  So is ``pt.stack`` of many
variables that are alike.  The log density of the joined model is compared with that of the user's.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle

from pymc_austerity.compat import replace_parts
from pymc_austerity.likelihood.derived_model import Joined, derived_model, require_same_density
from pymc_austerity.likelihood.layout import Block
from pymc_austerity.likelihood.model_graph import constant_of
from pymc_austerity.likelihood.stacked_graphs import JoinedRows, Stacks, UnlikeError

_log = logging.getLogger("pymc_austerity")

#: Variables that are alike from which on they are joined; fewer outcomes are read as they are, row by row together.
_FEWEST = 8


class JoinedModel(NamedTuple):
    """A model with variables in each of which several of the user's are joined."""

    model: Model
    parts: dict[str, tuple[str, ...]]  # from the name of a value variable to those of the user's along its first axis

    def point(self, point: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return a point of the user's model with the values of joined variables too."""
        values = {name: np.stack([point[part] for part in parts]) for name, parts in self.parts.items()}
        joined = {part for parts in self.parts.values() for part in parts}
        return {name: value for name, value in point.items() if name not in joined} | values

    def with_parts(self, blocks: Sequence[Block]) -> tuple[Block, ...]:
        """Return blocks of the model that tell the user's variables in them."""
        return tuple(b._replace(parts=self.parts.get(b.name, ())) for b in blocks)


def joined_model(model: Model) -> JoinedModel | None:
    """Return the model with its many observed variables that are alike joined; None where there are none."""
    if len(model.basic_RVs) <= _FEWEST:
        return None
    try:
        joining = _Joining(model)
        if not joining.stacks.of:
            return None
        found = joining.result()
        require_same_density(model, found.model, found.point)
    except Exception as error:  # whatever an op makes of a first axis, the model is read as it is
        _log.debug(f"Observed variables are read one by one ({type(error).__name__}: {error}).")
        return None
    for of in joining.stacks.of.values():
        _log.info(f"{len(of)} variables that are alike but for their data are read as one: {_name_of(of)}.")
    return found


class _Joining:
    """Joins the outcomes of a model that are alike, and what they read."""

    def __init__(self, model: Model):
        self.model, self.stacks = model, Stacks(model)
        self._values: dict[Variable, Variable] = {}  # of a joined outcome: what is observed
        self._instead: dict[Variable, Variable] = {}  # of graphs: what takes their place
        by_signature: dict[Hashable, list[Variable]] = {}
        for rv in model.observed_RVs:
            if isinstance(value := model.rvs_to_values[rv], Constant):  # containers may get other rows
                kind = value.type.dtype, rv.type.ndim, rv.type.shape[1:]
                by_signature.setdefault((kind, self.stacks.signature(rv)), []).append(rv)
        for of in by_signature.values():
            with suppress(UnlikeError):
                if len(of) >= _FEWEST:
                    self.stacks.of[self._of_outcomes(of)] = of
        for var in dict.fromkeys(ancestors([*model.basic_RVs, *model.potentials])):
            parts = None if var.owner is None else _stacked_by(var.owner)
            if parts is not None and set(model.free_RVs) & set(ancestors(parts)):
                with suppress(UnlikeError):
                    if (stack := self.stacks.stack(parts)) is not None:
                        self._instead[var] = stack

    def _of_outcomes(self, of: Sequence[Variable]) -> Variable:
        """Return outcomes as one, with their rows behind one another."""
        values = [self.model.rvs_to_values[rv] for rv in of]
        if of[0].type.ndim == 0:
            joined = self.stacks.along_first(of)
            self._values[joined] = pt.constant(np.stack([v.data for v in values]))
        else:
            joined = JoinedRows(self.stacks, [len(v.data) for v in values]).outcome(of)
            self._values[joined] = pt.constant(np.concatenate([v.data for v in values]))
        return joined

    def result(self) -> JoinedModel:
        """Return the model with the joined variables."""
        stacks = self.stacks
        entries = {rv: joined[k] for rv, (joined, k) in stacks.place.items()}
        first_of = {of[0]: joined for joined, of in stacks.of.items()}
        dropped = {rv for of in stacks.of.values() for rv in of} - set(first_of)

        def in_new_terms(term: Variable) -> Variable:
            return replace_parts(first_of.get(term, term), {**entries, **self._instead})

        named = {
            rv: Joined(joined, _name_of(stacks.of[joined]), self._values.get(joined)) for rv, joined in first_of.items()
        }
        new, _ = derived_model(self.model, in_new_terms, joined=named, dropped=dropped)
        values = {rv.name: value.name for rv, value in new.rvs_to_values.items()}
        free = (of for of in stacks.of.values() if of[0] in self.model.free_RVs)
        parts = {values[_name_of(of)]: tuple(self.model.rvs_to_values[rv].name for rv in of) for of in free}
        return JoinedModel(new, parts)


def _stacked_by(node: Apply) -> list[Variable] | None:
    """Return what a node stacks along a first axis, where it is much."""
    if isinstance(node.op, MakeVector) and len(node.inputs) >= _FEWEST:
        return node.inputs
    if isinstance(node.op, Join) and len(node.inputs) > _FEWEST:
        parts = [i for i in node.inputs if i.type.ndim]
        expanded = [p.owner for p in parts if p.owner is not None and isinstance(p.owner.op, DimShuffle)]
        whole = all(n.op.new_order == ("x", *range(n.inputs[0].type.ndim)) for n in expanded)
        first_axis = getattr(node.op, "axis", None) == 0 or constant_of(node.inputs[0]) == 0
        if len(expanded) == len(parts) and whole and first_axis:
            return [n.inputs[0] for n in expanded]
    return None


def _name_of(of: Sequence[Variable]) -> str:
    return f"{of[0].name} to {of[-1].name}"
