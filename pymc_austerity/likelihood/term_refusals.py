"""Models whose rows cannot be subsampled are refused, with the reason and the remedy."""

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from pymc.distributions.continuous import InterpolatedRV
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pymc.distributions.simulator import SimulatorRV
from pymc.model import Model
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import AllocDiag, ExtractDiag, Join, MakeVector
from pytensor.tensor.pad import Pad
from pytensor.tensor.random.type import RandomGeneratorType
from pytensor.tensor.shape import Reshape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from pytensor.tensor.type import TensorType

from pymc_austerity.likelihood.axis import LAG, NotRowWiseError
from pymc_austerity.likelihood.model_graph import (
    array_of,
    bounds_of,
    constant_of,
    is_array_leaf,
    is_product,
    plain_draw,
    plain_indices,
    variables_in,
)
from pymc_austerity.likelihood.row_leaves import RowLeaf
from pymc_austerity.unsupported_model import UnsupportedModelError

_log = logging.getLogger("pymc_austerity")

#: So many terms that are read by row take a step minutes to compile.
MANY_TERMS = 12
#: Where only one set of rows can be subsampled, one longer than this share of the longest could as well be meant.
_AMBIGUOUS_SHARE = 0.1
#: Terms outside the rows are evaluated in full at every draw; from this many entries on, a user should know.
_LARGE_REMAINDER = 5_000
#: A quarter of larger whole numbers are below this when they are cut to 32 bits, and hardly any others are.
_SELDOM = -(2**30)


_WITHOUT_PARAMETERS_OR_DENSITY = {
    InterpolatedRV: "pm.Interpolated, whose density has no parameters: its rows say nothing of the other variables. "
    "Leave it out of the model",
    SimulatorRV: "pm.Simulator, which compares data with simulated data and has no density of a row. "
    "Sample the model with pm.sample_smc",
}


def refuse_named_dimensions(model: Model) -> None:
    """Refuse variables with named dimensions, those of `pymc.dims`."""
    for term in (*model.observed_RVs, *model.potentials):
        named = [v for v in ancestors([term]) if hasattr(v.type, "dims")]
        if named:
            names = sorted({v.name for v in named if v.name in model.named_vars}) or "variables without a name"
            raise UnsupportedModelError(
                f"{term.name!r} reads variables with named dimensions (pymc.dims), {names}, and rows are looked for on "
                "the axes of arrays. Write these with pm instead, as in pm.Data(name, values, dims=...) and "
                "pm.Normal(name, dims=...), or sample with pm.NUTS."
            )


def refuse_missing(model: Model, shapes: Mapping[Variable, tuple[int, ...]]) -> None:
    """Refuse observed variables with missing values, and data that the model itself subsamples."""
    for rv in model.observed_RVs:
        name = rv.name.removesuffix("_observed")
        if name != rv.name and f"{name}_unobserved" in model.named_vars:
            raise UnsupportedModelError(
                f"Observed variable {name!r} has missing values, which PyMC imputes with one latent value each. "
                "Rows would then share no common form and cannot be subsampled. "
                "Drop the rows with missing values; of a table, observe the entries that are there, mu[i, j] and "
                "y[i, j] with i, j = np.nonzero(~np.isnan(y)). Or sample with pm.NUTS."
            )
        value = model.rvs_to_values[rv]
        drawn = any(isinstance(v.type, RandomGeneratorType) for v in ancestors([value]))
        if drawn or not _stands_for_its_own_rows(rv, shapes[rv]):
            how = "reads rows drawn at random (pm.Minibatch)" if drawn else "was given total_size"
            raise NotRowWiseError(
                f"Observed variable {rv.name!r} {how}, so the model already subsamples its rows. "
                "Give the model all rows (no pm.Minibatch, no total_size): the step draws its own batches."
            )


def has_total_size(rv: Variable) -> bool:
    """Return whether an observed variable was given `total_size`."""
    return isinstance(rv.owner.op, MinibatchRandomVariable)


def _stands_for_its_own_rows(rv: Variable, shape: tuple[int, ...]) -> bool:
    """Return whether `total_size`, where there is one, is the number of rows, so that it scales nothing."""
    if not has_total_size(rv):
        return True
    given = zip(rv.owner.inputs[1:], shape, strict=True)
    return all(isinstance(total, Constant) and total.data in (None, n) for total, n in given)


def refuse_ambiguous(lengths: Mapping[Variable, int], *, chosen: bool) -> None:
    """Refuse rows of several lengths where a step reads one set of them."""
    n_rows = max(lengths.values())
    limit = 0 if chosen else _AMBIGUOUS_SHARE * n_rows
    if any(limit < n < n_rows for n in lengths.values()):
        found = {term.name: n for term, n in lengths.items()}
        raise UnsupportedModelError(
            f"The variables {found} (name: number of rows) do not share a row axis, and this step reads one set of "
            "rows. Name those of one length with observed=[...]; the others are then evaluated in full at every draw."
        )


def no_rows(model: Model) -> UnsupportedModelError:
    """Explain why a model has no rows: nothing observed, or summed before it can be split."""
    for potential in model.potentials:
        data = [array_of(v) for v in ancestors([potential], blockers=model.free_RVs) if is_array_leaf(v)]
        longest = max((max(a.shape) for a in data if a.size and a.ndim), default=0)
        if longest > 1:
            return NotRowWiseError(
                f"Potential {potential.name!r} reads an array with {longest} rows but is a single number, and not "
                "shown to be a sum over them: sums may be added, and multiplied with numbers that read no row, and "
                "that is all. Give the potential one entry per row, without the .sum(); where that cannot be, rows "
                "depend on each other, and pymc_austerity.PartialPosteriorPaths or pm.NUTS samples the model."
            )
    if model.observed_RVs:
        return UnsupportedModelError(
            f"The observed variables {[rv.name for rv in model.observed_RVs]} have no row axis with at least two rows: "
            "there is nothing to subsample. Use pm.NUTS or pm.Metropolis for this model."
        )
    return UnsupportedModelError(
        "The model has no observed variable, so there are no rows to subsample. "
        "Pass observed= to the likelihood, or use pm.NUTS to sample from the prior."
    )


def refuse_joint(rv: Variable) -> None:
    """Refuse an observed variable that is a single draw over all rows."""
    op = plain_draw(rv).owner.op
    for kind, reason in _WITHOUT_PARAMETERS_OR_DENSITY.items():
        if isinstance(op, kind):
            raise NotRowWiseError(f"Observed variable {rv.name!r} is a {reason}.")
    if rv.type.ndim - op.ndim_supp == 0 and isinstance(op, CustomDistRV | CustomSymbolicDistRV):
        raise NotRowWiseError(
            f"Observed variable {rv.name!r} is a CustomDist whose signature makes all rows one draw, so that nothing "
            "says that they are independent. Leave the signature out and give it parameters with an entry for each "
            f"row: pm.CustomDist({rv.name!r}, X @ beta, logp=..., observed=...), with X read outside of logp."
        )
    if rv.type.ndim - op.ndim_supp == 0:
        raise NotRowWiseError(
            f"Observed variable {rv.name!r} is a single draw of {op} over all rows (a time series, a Gaussian "
            "process or another joint distribution): row i depends on the other rows, so a batch of rows says "
            "nothing exact about the rest. Use pymc_austerity.PartialPosteriorPaths, which needs no rows that "
            "split, or pm.NUTS."
        )


def said_of_lag(variables: Sequence[Variable], n_rows: int, stop: Iterable[Variable]) -> str | None:
    """Return what to say of the first array of which graphs read a stretch of as many entries as there are rows."""
    for var in variables:
        if var.owner is None or not isinstance(var.owner.op, Subtensor):
            continue
        cut = max((_cut(index) for index in plain_indices(var.owner) if isinstance(index, slice)), default=0)
        for leaf in variables_in([var.owner.inputs[0]], stop) if cut else ():
            if is_array_leaf(leaf) and n_rows + cut in array_of(leaf).shape:
                what = repr(leaf.name) if leaf.name else f"an array of shape {array_of(leaf).shape}"
                return (
                    f"{what} is shifted inside the model {LAG}, and a batch of rows does not have the "
                    "rows before. Rows are independent given what they read: make the shifted arrays outside the model "
                    "and give them as data, x[1:] and x[:-1] for instance, which have an entry for each row"
                )
    return None


def said_of_part(variables: Sequence[Variable], n_rows: int, stop: Iterable[Variable]) -> str | None:
    """Return what to say of the first part of graphs in which rows are padded, taken out of more, or summed before."""
    for var in variables:
        if is_array_leaf(var) and array_of(var).shape == (n_rows, n_rows):
            return (
                f"an array of shape {(n_rows, n_rows)} ties its entries to each other, as a Gram matrix, X.T @ X, or a "
                "covariance does, so that no row of the data is read by itself. Give it an entry for each row of the "
                "data, or sample with pm.NUTS"
            )
        if var.owner is None:
            continue
        if _puts_together(var.owner) == n_rows:
            return (
                f"its {n_rows} rows are computed one by one and put together inside the model (as in pt.stack of a "
                "list). Write the computation for all rows at once, X @ beta or u[g], of arrays with an entry for "
                "each row"
            )
        table = var.owner.inputs[0] if isinstance(var.owner.op, Reshape) else None
        if table is not None and _is_flattened(table, n_rows, stop) and var.type.shape in ((n_rows,), (None,)):
            shape = tuple(-1 if n is None else n for n in table.type.shape)
            return (
                "its rows are the entries of a table that is flattened inside the model (as in mu.flatten(), or in "
                f"pt.repeat). Leave the table as it is, and give the outcome its shape: observed=y.reshape({shape})"
            )
        if isinstance(var.owner.op, Pad):
            return (
                "rows are padded inside the model (pt.pad), which moves them past each other. Pad arrays outside the "
                "model, so that each has an entry for each row"
            )
        if isinstance(var.owner.op, Join):
            lengths = [v.type.shape[0] for v in var.owner.inputs if v.type.ndim]  # PyTensor 2 has the axis there
            if None not in lengths and 1 not in lengths and sum(lengths) == n_rows:
                return (
                    f"its rows are put together from parts of {' and '.join(map(str, lengths))} rows inside the model "
                    "(as in pt.concatenate), and a batch has rows of each. Put the arrays together outside the model, "
                    "so that each has an entry for each row, and where the parts differ write pt.switch(of_first, a, b)"
                    ", or u[part] with the number of the part of each row"
                )
        if isinstance(var.owner.op, ExtractDiag) and is_product(var.owner.inputs[0].owner):
            return (
                "the diagonal of a product of matrices is taken (as in pt.diag(A @ B)), which multiplies every row "
                "with every other to keep one entry for each. Write (A * B.T).sum(axis=1), which is the same"
            )
        if isinstance(var.owner.op, AllocDiag):
            sources = [array_of(v).shape for v in variables_in(var.owner.inputs, stop) if is_array_leaf(v)]
            if any(n_rows in shape for shape in sources):
                return (
                    "a diagonal matrix with an entry for each row is made (as in pt.diag(w) @ x), which has a column "
                    "for each row, too. Multiply by the entries themselves, w * x or w[:, None] * X, which is the same"
                )
        if not isinstance(var.owner.op, Subtensor | AdvancedSubtensor):
            continue
        index = plain_indices(var.owner)[0]
        mask = isinstance(index, Variable) and isinstance(index.type, TensorType) and index.type.dtype == "bool"
        if not (mask or isinstance(index, slice)) or var.type.shape[:1] not in ((n_rows,), (None,)):
            continue
        for leaf in variables_in([var.owner.inputs[0]], stop):
            shape = array_of(leaf).shape if is_array_leaf(leaf) else ()
            if shape and n_rows not in shape and (longer := shape[0]) > n_rows:
                what = repr(leaf.name) if leaf.name else f"an array of shape {shape}"
                return (
                    f"its {n_rows} rows are taken out of the {longer} of {what} inside the model (as in x[:{n_rows}] "
                    "or x[mask]), so that all of these would be read for any batch. Take them outside the model, so "
                    "that each array has an entry for each row"
                )
    return None


def _is_flattened(table: Variable, n_rows: int, stop: Iterable[Variable]) -> bool:
    """Return whether a table of what data say has no axis of the rows."""
    shape = table.type.shape
    data = (array_of(v) for v in variables_in([table], stop) if is_array_leaf(v))
    return len(shape) > 1 and not {1, n_rows} & set(shape) and any(array.size > 1 for array in data)


def _puts_together(node: Apply) -> int:
    """Return how many single entries a node puts together, zero where it does something else."""
    if isinstance(node.op, MakeVector):
        return len(node.inputs)
    parts = [v for v in node.inputs if v.type.ndim] if isinstance(node.op, Join) else []
    return len(parts) if all(v.type.shape[:1] == (1,) for v in parts) else 0


def _cut(index: slice) -> int:
    """Return how many entries a slice leaves out at the ends of an axis, zero where that is not known."""
    start, stop, step = bounds_of(index)
    begin = 0 if start is None else constant_of(start)
    end = 0 if stop is None else constant_of(stop)
    whole = step is None or constant_of(step) == 1
    return begin - end if whole and begin is not None and end is not None and begin >= 0 >= end else 0


def refuse_types(leaves: Iterable[RowLeaf]) -> None:
    """Refuse complex data, and data of half precision, for which no code is compiled."""
    for leaf in leaves:
        dtype = np.dtype(leaf.source.type.dtype)
        if dtype == np.float16 or dtype.kind == "c":
            cure = "array.real and array.imag" if dtype.kind == "c" else 'array.astype("float32")'
            raise UnsupportedModelError(f"Data {leaf.label} are {dtype}, for which no code is compiled. Pass {cure}.")


def warn_of_wrapped(leaves: Iterable[RowLeaf]) -> None:
    """Warn of whole numbers of 32 bits that look as if they had been larger."""
    for leaf in leaves:
        array = array_of(leaf.source)
        if array.dtype == np.int32 and array.size and (least := array.min()) < _SELDOM:
            warnings.warn(
                f"Data {leaf.label} are whole numbers of 32 bits, and {least} is among them. PyMC keeps whole numbers "
                "so, and turns larger ones, as dates in nanoseconds and counts of billions, into others. Where that "
                "has happened, pass them as floats: values.astype(float).",
                UserWarning,
                stacklevel=2,
            )


def warn_of_many(n_terms: int) -> None:
    """Warn of many terms that are read by row, each of which is compiled by itself."""
    if n_terms > MANY_TERMS:
        _log.warning(
            f"{n_terms} observed variables or potentials are read by row, and each is compiled by itself: "
            "building a step takes minutes. One vector of all outcomes is read as one: pm.Normal('y', mu[g], sigma, "
            "observed=np.concatenate(outcomes)), with the number g of its outcome for each entry."
        )


def warn_about_remainder(
    model: Model, rest: Mapping[Variable, tuple[int, ...]], point: Mapping[str, np.ndarray]
) -> None:
    """Warn where much of a model lies outside the rows that are subsampled, in terms of these shapes.

    Potentials of no more entries than a free variable that they read are priors.
    """
    sizes = {term.name: int(np.prod(shape)) for term, shape in rest.items()}
    for potential in (p for p in model.potentials if p in rest):
        above = set(ancestors([potential]))
        arrays = [array_of(v).size for v in above if is_array_leaf(v)]
        sizes[potential.name] = max([sizes[potential.name], *arrays])
        free = [np.size(point[model.rvs_to_values[rv].name]) for rv in model.free_RVs if rv in above]
        if sizes[potential.name] <= max(free, default=0):
            del sizes[potential.name]
    large = {name: size for name, size in sizes.items() if size >= _LARGE_REMAINDER}
    if large:
        warnings.warn(
            f"{large} (name: number of entries) is not subsampled but evaluated in full at every draw, which will "
            "dominate the cost. What splits into rows is subsampled unless observed= leaves it out.",
            UserWarning,
            stacklevel=2,
        )
