"""Rows with normal errors: shown to be quadratic in all that they read but a scale, which divides all of them alike.

Where every ℓ_i(θ) = d_i + c s + e^{ks} q_i(v), with s one entry of θ, v the others, d_i data, and q_i a polynomial of
second degree in v, its expansion of second order in v is exact at every v and, multiplied by e^{k(s − ŝ)}, at every s.
Normal errors with log σ in θ have c = −1 and k = −2; with a known σ there is no s.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from pytensor import scalar
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import io_toposort
from pytensor.tensor.basic import ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from pytensor.tensor.type import discrete_dtypes

from pymc_austerity.bounds.row_graph import simplified_rows
from pymc_austerity.likelihood import RowLikelihood, keeps_affine
from pymc_austerity.likelihood.model_graph import entries_taken

#: Ops that move or pick entries of their first argument.
_REARRANGES = (
    DimShuffle, Reshape, SpecifyShape, Subtensor, AdvancedSubtensor, TensorFromScalar, ScalarFromTensor,
)  # fmt: skip


class RowScale(NamedTuple):
    """How the rows read their scale."""

    place: int | None  # where s lies in θ; None where the rows are quadratic in all that they read
    power: float  # k
    slope: float  # c


class _Form(NamedTuple):
    """What is known of a variable: e^{ks} p(v) + cs, with data added where it is `shifted`."""

    degree: int = 0  # of the polynomial p, whose coefficients are data
    power: float = 0.0  # k
    slope: float = 0.0  # c
    #: Whether data are added to e^{ks} p(v), which is more than another coefficient where k is not 0.
    shifted: bool = False
    uniform: bool = False  # whether p is of degree 0 and one number, the same for all entries

    @property
    def is_product(self) -> bool:
        """Whether nothing is added to e^{ks} p(v)."""
        return self.slope == 0.0 and not self.shifted

    @property
    def is_data(self) -> bool:
        """Whether θ is not read."""
        return self.degree == 0 and self.power == 0.0 and self.slope == 0.0


class _NotOfThisFormError(Exception):
    """A graph that is not shown to be of such a form."""


def find_row_scale(likelihood: RowLikelihood, candidates: Sequence[int]) -> RowScale | None:
    """Show op by op that rows are quadratic but for a scale that is one of the entries `candidates`, or return None."""
    rows = simplified_rows(likelihood)
    for place in (None, *candidates):
        try:
            form = _form_of(rows, likelihood, place)
        except _NotOfThisFormError:
            continue
        if form.degree <= 2 and (place is None or form.power != 0.0):
            return RowScale(place, form.power, form.slope)
    return None


def _form_of(rows: Variable, likelihood: RowLikelihood, place: int | None) -> _Form:
    """Return the form of the rows with the entry `place` of θ for s."""
    leaves = [likelihood.theta, likelihood.others, *likelihood.fixed, *likelihood.batches]
    forms: dict[Variable, _Form] = {}
    reading = {likelihood.theta}

    def of(var: Variable) -> _Form:
        if isinstance(var, Constant):
            return _Form(uniform=np.size(var.data) > 0 and np.unique(var.data).size == 1)
        if var is likelihood.theta:
            if place is not None:
                raise _NotOfThisFormError
            return _Form(degree=1)
        return forms.get(var, _Form())

    for node in io_toposort(leaves, [rows]):
        if not reading & set(node.inputs):
            form = _Form(uniform=all(of(var).uniform for var in node.inputs))
        elif isinstance(node.op, Subtensor) and node.inputs[0] is likelihood.theta:
            form = _entries(node, likelihood.theta_size, place)
        elif any(out.type.dtype in discrete_dtypes for out in node.outputs):
            raise _NotOfThisFormError  # a cast to whole numbers is a rounding
        elif all(of(var) == _Form(degree=1) for var in node.inputs if var in reading) and keeps_affine(
            node.op, [i for i, var in enumerate(node.inputs) if var in reading]
        ):
            form = _Form(degree=1)
        else:
            # A count multiplies a row as a whole.
            inputs = [var for var in node.inputs if var is not likelihood.counts]
            found = [of(var) for var in inputs]
            if isinstance(node.op, Elemwise):
                form = _elementwise(node.op.scalar_op, inputs, found)
            elif isinstance(node.op, _REARRANGES) and all(of_place.is_data for of_place in found[1:]):
                form = found[0]
            else:
                raise _NotOfThisFormError
        reading.update(node.outputs if reading & set(node.inputs) else ())
        forms.update(dict.fromkeys(node.outputs, form))
    return of(rows)


def _entries(node: Apply, size: int, place: int | None) -> _Form:
    """Return the form of some entries of θ."""
    taken = entries_taken(node, size)
    if taken is None:
        raise _NotOfThisFormError
    if place not in taken.tolist():
        return _Form(degree=1)
    if taken.tolist() != [place]:
        raise _NotOfThisFormError
    return _Form(slope=1.0, uniform=True)


def _elementwise(kind: Any, variables: Sequence[Variable], forms: Sequence[_Form]) -> _Form:
    """Return the form of what a function of numbers makes of variables of these forms."""
    first = forms[0]
    if isinstance(kind, scalar.Identity | scalar.Cast):
        return first
    if isinstance(kind, scalar.Neg):
        return first._replace(slope=-first.slope)
    if isinstance(kind, scalar.Add):
        return _sum(forms)
    if isinstance(kind, scalar.Sub):
        return _sum([first, forms[1]._replace(slope=-forms[1].slope)])
    if isinstance(kind, scalar.Mul):
        return _multiple(variables, forms)
    if isinstance(kind, scalar.TrueDiv) and forms[1].degree == 0 and forms[1].is_product:
        if first.is_product:
            return _product([first, forms[1]._replace(power=-forms[1].power)])
        return first._replace(slope=first.slope / _number(variables[1]))
    if isinstance(kind, scalar.Sqr):
        return _product([first, first])
    if isinstance(kind, scalar.Sqrt):
        return _power(first, 0.5)
    if isinstance(kind, scalar.Abs) and first.degree == 0 and first.is_product:
        return first
    if isinstance(kind, scalar.Sign) and first.degree == 0 and first.is_product:
        return _Form(uniform=first.uniform)
    if isinstance(kind, scalar.Pow) and forms[1].is_data and forms[1].uniform:
        return _power(first, _number(variables[1]))
    if isinstance(kind, scalar.Exp) and first.degree == 0 and first.power == 0.0:
        return _Form(power=first.slope, uniform=first.uniform)
    if isinstance(kind, scalar.Log) and first.degree == 0 and first.is_product:
        return _Form(slope=first.power, uniform=first.uniform)
    if isinstance(kind, scalar.Switch) and first.is_data and _number(variables[2]) == -np.inf:
        return forms[1]  # data that have no density have none at any θ
    raise _NotOfThisFormError


def _sum(forms: Sequence[_Form]) -> _Form:
    total, slope = forms[0], sum(form.slope for form in forms)
    for form in forms[1:]:
        if form.power == total.power:
            total = _Form(
                max(form.degree, total.degree), form.power, 0.0, form.shifted or total.shifted,
                form.uniform and total.uniform,
            )  # fmt: skip
            continue
        number, other = (form, total) if form.power == 0.0 else (total, form)
        if not (number.power == 0.0 and number.degree == 0):
            raise _NotOfThisFormError
        total = other._replace(shifted=True, uniform=False)
    return total._replace(slope=slope)


def _product(forms: Sequence[_Form]) -> _Form:
    if not all(form.is_product for form in forms):
        raise _NotOfThisFormError
    return _Form(
        sum(form.degree for form in forms), sum(form.power for form in forms), 0.0, False,
        all(form.uniform for form in forms),
    )  # fmt: skip


def _multiple(variables: Sequence[Any], forms: Sequence[_Form]) -> _Form:
    """Return the form of a product, in which one factor may be a sum where all others are numbers."""
    sums = [i for i, form in enumerate(forms) if not form.is_product]
    if not sums:
        return _product(forms)
    rest = [i for i in range(len(forms)) if i != sums[0]]
    if len(sums) > 1 or not all(forms[i].is_data and forms[i].uniform for i in rest):
        raise _NotOfThisFormError
    times = float(np.prod([_number(variables[i]) for i in rest]))
    return forms[sums[0]]._replace(slope=times * forms[sums[0]].slope)


def _power(form: _Form, exponent: float) -> _Form:
    if not form.is_product or (form.degree > 0 and exponent not in (1.0, 2.0)):
        raise _NotOfThisFormError
    return _Form(int(exponent) * form.degree if form.degree else 0, exponent * form.power, 0.0, False, form.uniform)


def _number(var: Any) -> float:
    """Return the number that all entries of a constant are."""
    if not isinstance(var, Constant):
        raise _NotOfThisFormError
    found = np.unique(var.data)
    if found.size != 1:
        raise _NotOfThisFormError
    return float(found[0])
