"""Checks that indices of rows lie within what they index: compiled code reads beyond an array unchecked."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, walk
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood.model_graph import plain_indices
from pymc_austerity.likelihood.prior_laws import prior_draw
from pymc_austerity.likelihood.row_terms import RowTerms
from pymc_austerity.unsupported_model import UnsupportedModelError

#: Numbers drawn from the prior of what indexes something, but two of each at least.
_DRAWS = 300


class _Index(NamedTuple):
    """Whole numbers that pick entries of a variable along one of its axes, and the free variables they come from."""

    numbers: Variable
    indexed: Variable
    axis: int
    drawn_by: tuple[str, ...]


def compile_index_check(model: Model, terms: RowTerms, point: Mapping[str, np.ndarray]) -> Callable[[], None]:
    """Return a function that compares each index of the row-wise terms, in data as they are then, with what it indexes.

    Where an index depends on whole numbers that are sampled, the least and the greatest of some draws from their prior
    are compared.
    """
    checks = [_index_check(model, indices, point) for indices in _by_depth(_indices(model, terms))]

    def check() -> None:
        for of_one_depth in checks:
            of_one_depth()

    return check


def _index_check(model: Model, indices: Sequence[_Index], point: Mapping[str, np.ndarray]) -> Callable[[], None]:
    """Return such a function for some indices, whose numbers can be looked up."""
    # Looked at once: not worth compiling.
    outputs = [*(i.numbers for i in indices), *(i.indexed.shape[i.axis] for i in indices)]
    ranges = pytensor.function(model.value_vars, outputs, mode=BY_NUMPY, on_unused_input="ignore")
    points = [point, *_ends_of_priors(model, point, {name for i in indices for name in i.drawn_by})]
    names = {value.name: rv.name for value, rv in model.values_to_rvs.items()}
    values = [v.name for v in model.value_vars]  # not the model, which a step is remembered for and must not keep

    def check() -> None:
        found = [ranges(*(p[v] for v in values)) for p in points]
        sizes = [int(size) for size in found[0][len(indices) :]]
        for index, size, *at_points in zip(indices, sizes, *(f[: len(indices)] for f in found), strict=True):
            numbers = np.concatenate([np.ravel(n) for n in at_points])
            low, high = (int(numbers.min()), int(numbers.max())) if numbers.size else (0, -1)
            if low < -size or high >= size:
                name = _nearest_name(index.indexed, names) or "an array of the model"
                by = " and ".join(names[d] for d in index.drawn_by) or _nearest_name(index.numbers, names)
                remedy = (
                    f"Give {by} a prior without numbers outside 0 to {size - 1}"
                    if index.drawn_by
                    else f"Number the groups from 0 to {size - 1}, as np.unique(..., return_inverse=True) does"
                )
                raise UnsupportedModelError(
                    f"{name} has {size} entries along axis {index.axis}, but the rows index it "
                    f"{f'by {by} ' if by else ''}with numbers from {low} to {high}. Compiled code would read beyond "
                    f"the array, and these rows would be computed from whatever lies there. {remedy}, or give {name} "
                    "more entries."
                )

    return check


def compile_index_check_of_batches(
    model: Model, terms: RowTerms, point: Mapping[str, np.ndarray], batches: Mapping[Variable, Variable]
) -> Callable[[tuple[np.ndarray, ...]], tuple[int, str] | None]:
    """Return a function of the arrays of some rows, those that `batches` stand for, which compares their indices so.

    It returns the number of the first row with an index out of range and what is wrong with it, or None.  Negative
    indices are out of range: in new rows −1 is how a missing group is written.
    """
    indices = [i for i in _indices(model, terms) if not i.drawn_by and set(ancestors([i.numbers])) & set(batches)]
    checks = [_check_of_batches(model, some, point, batches) for some in _by_depth(indices)]
    return lambda arrays: next((found for check in checks if (found := check(arrays)) is not None), None)


def _check_of_batches(
    model: Model, indices: Sequence[_Index], point: Mapping[str, np.ndarray], batches: Mapping[Variable, Variable]
) -> Callable[[tuple[np.ndarray, ...]], tuple[int, str] | None]:
    """Return such a function for some indices, whose numbers can be looked up."""
    lengths = [i.indexed.shape[i.axis] for i in indices]
    sizes_of = pytensor.function(model.value_vars, lengths, mode=BY_NUMPY, on_unused_input="ignore")
    sizes = [int(size) for size in sizes_of(*[point[v.name] for v in model.value_vars])]
    numbers = graph_replace([i.numbers for i in indices], batches, strict=False)
    numbers_in = pytensor.function(list(batches.values()), numbers, mode=BY_NUMPY, on_unused_input="ignore")
    names = {value.name: rv.name for value, rv in model.values_to_rvs.items()}

    def wrong_index(arrays: tuple[np.ndarray, ...]) -> tuple[int, str] | None:
        for index, found, size in zip(indices, numbers_in(*arrays), sizes, strict=True):
            bad = (found < 0) | (found >= size)
            if bad.any():
                place = tuple(int(k[0]) for k in np.nonzero(bad))
                name = _nearest_name(index.indexed, names) or "an array of the model"
                by = _nearest_name(index.numbers, names) or "an index"
                return place[0] if place else 0, (
                    f"{by} is {int(found[place])}, and {name} has {size} entries along axis {index.axis}, numbered "
                    "from 0. Give the model an entry for every group, or leave the row out."
                )
        return None

    return wrong_index


def _ends_of_priors(
    model: Model, point: Mapping[str, np.ndarray], drawn: Collection[str]
) -> list[dict[str, np.ndarray]]:
    """Return the point with the least, and with the greatest, of draws from the prior of these variables."""
    size = sum(np.size(point[name]) for name in drawn)
    draws = prior_draw(model, sorted(drawn), np.random.default_rng(1604), max(2, _DRAWS // max(1, size)))
    ends = [{name: end(values, axis=0) for name, values in draws.items()} for end in (np.min, np.max)]
    return [{**point, **end} for end in ends if end]


def _indices(model: Model, terms: RowTerms) -> list[_Index]:
    graphs = model.logp(vars=list(terms.all), sum=False)
    moving = set(model.value_vars)
    whole = {v for v in moving if v.type.dtype.startswith(("int", "uint"))}
    found = []
    for node in dict.fromkeys(v.owner for v in ancestors(graphs) if v.owner is not None):
        if not isinstance(node.op, Subtensor | AdvancedSubtensor):
            continue
        indices = plain_indices(node)
        numbers = {axis: i for axis, i in enumerate(indices) if isinstance(i, Variable)}
        if any(getattr(i.type, "dtype", "bool") == "bool" for i in numbers.values()):
            continue  # a mask is as long as what it picks from, and a new axis (PyTensor 2) moves the others
        for axis, i in numbers.items():
            moved_by = moving & set(ancestors([i]))
            if moved_by <= whole:
                drawn_by = tuple(sorted(str(v.name) for v in moved_by))
                found.append(_Index(pt.as_tensor(i), node.inputs[0], axis, drawn_by))
    return found


def _by_depth(indices: Sequence[_Index]) -> list[list[_Index]]:
    """Return indices with those before them that their numbers are looked up by, as school_of_class in others."""
    depths: dict[int, list[_Index]] = {}
    for index in indices:
        above = {var.owner for var in ancestors([index.numbers]) if var.owner is not None}
        depths.setdefault(sum(isinstance(node.op, AdvancedSubtensor) for node in above), []).append(index)
    return [depths[depth] for depth in sorted(depths)]


def _nearest_name(variable: Variable, names: Mapping[str, str]) -> str | None:
    """Return the name of the nearest variable above that has one, as the model knows it."""
    named = next((v.name for v in walk([variable], lambda v: v.owner and v.owner.inputs) if v.name), None)
    return named and names.get(named, named)
