"""The arrays that a model holds, and whether they are still what they were.

PyTensor keeps the very array that a user wrote into a model; ``pm.set_data`` puts another into a container.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from pymc.model import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.printing import debugprint
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.type import DenseTensorType

from pymc_austerity.digests import digest_of, digest_of_all, number_of
from pymc_austerity.likelihood.model_graph import array_of, leaf_identity
from pymc_austerity.rows.mapped import MappedFile

#: Of larger files that are mapped and not written to, so many pieces of so many bytes are looked at.
_LARGE_FILE, _PIECES, _BYTES = 2**28, 4_096, 2**14


class ModelKey(NamedTuple):
    """Which model and which data draws belong to, as numbers that fit into the statistics of a draw."""

    model: int  # of variables, their laws and their scalar constants
    data: int  # of all arrays; an odd number of rows that are not in the model


@dataclass(frozen=True)
class ModelArrays:
    """Arrays of a model as they were when they were looked at."""

    named: dict[str, Variable]  # from a name for messages to the constant or shared variable
    values: tuple[Any, ...]  # the arrays that these held
    digests: tuple[str, ...]
    n_own: int  # so many of them are in the model as the user wrote it; the others only in what is derived from it
    model: str  # digest of all else: variables, their laws, and scalar constants

    @property
    def key(self) -> ModelKey:
        """What is written down in the statistics of draws."""
        own = zip(list(self.named)[: self.n_own], self.digests)
        return ModelKey(number_of(self.model), number_of(digest_of_all(text for pair in own for text in pair)))

    def was_replaced(self) -> bool:
        """Return whether other arrays have taken their places, without looking into them."""
        return any(array_of(leaf) is not value for leaf, value in zip(self.named.values(), self.values, strict=True))

    def changed(self) -> ModelArrays | None:
        """Look again; return what there is now, or None where all arrays are the same.

        An array whose entries were changed in place is refused by name.
        """
        values = tuple(map(array_of, self.named.values()))
        digests = tuple(map(_digest_of, values))
        for name, new, old, digest, known in zip(self.named, values, self.values, digests, self.digests, strict=True):
            if digest != known and new is old:
                raise ValueError(
                    f"{name} was changed in place after the step was built. What the step learnt holds for the "
                    "entries as they were, and the model has another posterior now. Build the step again, or hold the "
                    "array in a container, pm.Data, and change it by pm.set_data, which the step follows."
                )
        return None if digests == self.digests else replace(self, values=values, digests=digests)

    def differing(self, other: ModelArrays) -> dict[str, Variable]:
        """Return the constants and shared variables of the same model that held other values, by their names."""
        pairs = zip(self.named.items(), self.digests, other.digests, strict=True)
        return {name: leaf for (name, leaf), digest, of_other in pairs if digest != of_other}


def arrays_of_model(model: Model, derived: Iterable[Variable] = ()) -> ModelArrays:
    """Look at all arrays of a model, and of graphs `derived` from it, which hold those that only its densities read."""
    terms = [*model.basic_RVs, *model.potentials]
    named: dict[str, Variable] = {}
    known: set[Any] = set()
    for rv in model.observed_RVs:
        for leaf in _leaves([model.rvs_to_values[rv]]):
            _add(leaf, f"The array of observed values of {rv.name!r}", named, known)
    for term in terms:
        for leaf in _leaves([term]):
            shape = np.shape(array_of(leaf))
            _add(leaf, f"An array of shape {shape} in the model's variable {term.name!r}", named, known)
    n_own = len(named)
    for leaf in _leaves(derived):
        _add(leaf, f"An array of shape {np.shape(array_of(leaf))} in the model's density", named, known)
    values = tuple(map(array_of, named.values()))
    return ModelArrays(named, values, tuple(map(_digest_of, values)), n_own, _digest_of_graphs(model, terms))


def _leaves(graphs: Iterable[Variable]) -> list[Variable]:
    """Return the arrays among constants and shared variables; constants of one number are left out."""
    return [
        v
        for v in dict.fromkeys(ancestors(list(graphs)))
        if isinstance(v, Constant | SharedVariable)
        and isinstance(v.type, DenseTensorType | SparseTensorType)
        and (v.type.ndim or isinstance(v, SharedVariable))
    ]


def _add(leaf: Variable, unnamed: str, named: dict[str, Variable], known: set[Any]) -> None:
    """Take up a leaf, unless another holds the same memory."""
    value = array_of(leaf)
    identity = leaf_identity(leaf) if isinstance(value, np.ndarray) else leaf
    if identity in known:
        return
    known.add(identity)
    name = f"Data array {leaf.name!r}" if isinstance(leaf, SharedVariable) and leaf.name else unnamed
    number = sum(other.startswith(name) for other in named)
    named[f"{name} ({number + 1})" if number else name] = leaf


def _digest_of(value: Any) -> str:
    if not isinstance(value, np.ndarray | np.generic | float | int):  # a sparse matrix
        return digest_of_all([str(value.shape), value.data, value.indices, value.indptr])
    array = np.asarray(value)
    if array.nbytes <= _LARGE_FILE or (file := MappedFile.of(array)) is None or file.mode != "r":
        return digest_of(array)
    content = array.reshape(-1).view(np.uint8)
    starts = np.linspace(0, content.size - _BYTES, _PIECES).astype(np.int64)
    return digest_of_all([str((array.shape, array.dtype.str)), *(content[i : i + _BYTES] for i in starts)])


def _digest_of_graphs(model: Model, terms: list[Variable]) -> str:
    """Return a digest of the graphs of a model that is the same for other data."""
    leaves = [v for v in dict.fromkeys(ancestors(terms)) if isinstance(v, Constant | SharedVariable)]
    numbers = [v.data for v in leaves if isinstance(v, Constant) and isinstance(v.type, DenseTensorType) and not v.ndim]
    plain = graph_replace(terms, {v: v.type() for v in leaves}, strict=False)
    graphs = re.sub(r"0x[0-9a-f]+", "", debugprint(plain, file="str"))
    transforms = [f"{rv.name} {type(model.rvs_to_transforms[rv]).__name__}" for rv in model.free_RVs]
    observed = [f"{rv.name} observed" for rv in model.observed_RVs]
    return digest_of_all([*(term.name for term in terms), *transforms, *observed, graphs, *numbers])
