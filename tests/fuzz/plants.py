"""Mistakes, each planted in the part of the package where it would be made."""

from dataclasses import replace

import numpy as np

from pymc_austerity.bounds import row_series, scalar_rules, sums_of_squares
from pymc_austerity.bounds.remainder_bounds import RemainderBounds
from pymc_austerity.groups import centred_model, change_of_variables
from pymc_austerity.likelihood import model_data, row_set
from pymc_austerity.likelihood.axis import RowAxis
from pymc_austerity.likelihood.row_data import DataSource
from pymc_austerity.likelihood.row_leaves import RowLeaf
from pymc_austerity.likelihood.row_likelihood import RowLikelihood
from pymc_austerity.rows import Rows


def the_prior_is_dropped(patch):
    read = model_data.row_likelihood

    def without(*given, **named):
        found, *rest = read(*given, **named)
        return replace(found, log_prior=0.0 * found.log_prior), *rest

    patch.setattr(model_data, "row_likelihood", without)


def positions_are_taken_for_row_numbers(patch):
    take = Rows.take
    patch.setattr(Rows, "take", lambda rows, numbers: take(rows, np.arange(len(numbers)) % len(rows)))


def counts_of_merged_rows_are_ignored(patch):
    counted = RowLikelihood.counted
    patch.setattr(
        RowLikelihood, "counted", lambda read: replace(counted(read), row_log_likelihood=read.row_log_likelihood)
    )


def bounds_are_too_small_by_two(patch):
    bound = RemainderBounds.__call__
    patch.setattr(RemainderBounds, "__call__", lambda *given: 0.5 * bound(*given))


def bounds_take_what_differs_by_little_for_the_same(patch):
    """With an absolute slack a jump between small values is one function written in two ways."""

    def agree(enclosure, a, b, where):
        first, second = enclosure(a).value, enclosure(b).value
        return bool((np.abs(first.lo - second.lo) < 1e-7).all())

    patch.setattr(row_series.RowSeries, "agree", agree)


def rows_are_looked_for_on_the_wrong_axis(patch):
    array = RowLeaf.array.fget

    def folded(leaf):
        found = array(leaf)
        return found if leaf.axis == 0 else found.reshape(found.shape[::-1]).T

    patch.setattr(RowLeaf, "array", property(folded))


def _changed(patch, change):
    row_arrays = DataSource.row_arrays
    patch.setattr(DataSource, "row_arrays", lambda source: change(row_arrays(source)))


def an_exposure_is_ignored(patch):
    def ignored(a):
        return a.dtype.kind == "f" and a.ndim == 1 and a.min() >= 0.5 and a.max() <= 2

    _changed(patch, lambda arrays: tuple(np.ones_like(a) if ignored(a) else a for a in arrays))


def limits_of_censored_rows_are_lost(patch):
    """Rows at a limit are taken for rows that were seen."""

    def lost(a):
        limits = a.dtype.kind == "f" and a.ndim == 1 and ((a < 0).all() or (a > 0).all())
        return 1e3 * a if limits else a

    _changed(patch, lambda arrays: tuple(map(lost, arrays)))


def a_scale_is_not_squared_in_sums(patch):
    moment_rows = sums_of_squares.moment_rows

    def flat(rows):
        few, weight = moment_rows(rows)
        deviations = [a - a.mean(axis=0) for a in few.arrays]
        roots = [np.sign(d) * np.sqrt(np.abs(d)) for d in deviations]
        return Rows(tuple(a.mean(axis=0) + r for a, r in zip(few.arrays, roots, strict=True))), weight

    patch.setattr(sums_of_squares, "moment_rows", flat)


def rows_that_are_tied_together_are_accepted(patch):
    patch.setattr(row_set, "prove_row_axis", lambda *given: RowAxis(0))


def kinks_are_taken_for_smooth(patch):
    patch.setattr(scalar_rules, "_unknown_where", lambda series, where: series)


#: Each mistake, and the seed of one of the fixed models that show it.
PLANTS = {
    the_prior_is_dropped: 1,
    positions_are_taken_for_row_numbers: 2,
    counts_of_merged_rows_are_ignored: 3,
    bounds_are_too_small_by_two: 4,
    bounds_take_what_differs_by_little_for_the_same: 782,
    rows_that_are_tied_together_are_accepted: 32,
    rows_are_looked_for_on_the_wrong_axis: 302,
    an_exposure_is_ignored: 18,
    limits_of_censored_rows_are_lost: 600,
    a_scale_is_not_squared_in_sums: 239,
    kinks_are_taken_for_smooth: 20,
}


def effects_without_their_jacobian(patch):
    """The prior of effects that rows read is taken for that of what the user wrote."""
    inverse = change_of_variables._inverse

    def without(*given, **named):
        found = inverse(*given, **named)
        return None if found is None else (found[0], 0.0 * found[1])

    patch.setattr(change_of_variables, "_inverse", without)
    patch.setattr(centred_model, "_check", lambda *given: None)


def sums_of_curvatures_are_wrong(decider):
    """What rows together say of an effect is not the sum of what each says."""
    data = decider.data()
    return data._replace(expansion=data.expansion._replace(hessian=2.0 * data.expansion.hessian))


def sums_of_slopes_are_wrong(decider):
    """The same of its first derivatives."""
    data = decider.data()
    return data._replace(expansion=data.expansion._replace(gradient=data.expansion.gradient + 2.0))


#: Mistakes of moves of groups: each returns what the moves read.
MOVES_OF_GROUPS = (sums_of_curvatures_are_wrong, sums_of_slopes_are_wrong)
