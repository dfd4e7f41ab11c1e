"""What is learnt of the groups from all rows before sampling: their order, centre, expansion and row weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.compile_cache import cached
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import Density, Groups, ModelData
from pymc_austerity.progress import setup_progress
from pymc_austerity.proxy.expansion import Expansion, check_order
from pymc_austerity.proxy.group_expansion import Conditional, GroupExpansion, own_sum, place_all
from pymc_austerity.proxy.group_mode import GroupModeError, find_group_centre
from pymc_austerity.proxy.group_pass import GroupPass
from pymc_austerity.proxy.group_score import GroupScore, shift_to_mode
from pymc_austerity.proxy.remainder_sizes import remainder_sizes
from pymc_austerity.rows import AliasTable, Rows, row_table

#: Carried moves by whose remainders rows are weighed.
_WEIGHT_PAIRS = 4
#: Groups whose known sums are compared with their rows, and what may differ.
_CHECKED, _RELATIVE_ERROR = 3, 1e-6


class PreparedGroups(NamedTuple):
    """What a step keeps of its preparation: arrays only, so that it travels to other processes.

    Attributes
    ----------
    rows : Rows
        A copy of the data, sorted by group.
    order : numpy.ndarray of uint32 or int64, shape (N,)
        What these rows are numbered in the model.
    start : numpy.ndarray of int64, shape (G + 1,)
        Where the rows of each group begin, and N.
    expansion : GroupExpansion
    mean, factor : numpy.ndarray, shapes (P,) and (P, P)
        Normal approximation of the marginal of φ.
    table : AliasTable or None
        Row weights of the carried move, where its test reads a part of the rows.
    passes : float
        Passes over all rows, a derivative of each counted as one.
    """

    rows: Rows
    order: np.ndarray
    start: np.ndarray
    expansion: GroupExpansion
    mean: np.ndarray
    factor: np.ndarray
    table: AliasTable | None
    passes: float

    def draw_shared(self, rng: np.random.Generator, width: float = 1.0) -> np.ndarray:
        """Return a draw of φ from the normal approximation, or one from a wider one."""
        return self.mean + width * self.factor @ rng.standard_normal(self.mean.size)

    def theta(self, phi: np.ndarray, z: np.ndarray, condition: Callable[..., Any], at: tuple[Any, Any]) -> np.ndarray:
        """Return θ for φ and the z of all groups; `at` is the values of other steps and the fixed data."""
        e = self.expansion
        theta = e.centre.copy()
        theta[e.shared] = phi
        place_all(theta, z, e.own, Conditional(*uninterrupted(condition, theta, *at, e)))
        return theta


def sort_by_group(groups: Groups, rows: Rows) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Return a copy of the rows in which those of a group lie together, the group of each, and its number before."""
    of_rows = groups.of_rows(rows.arrays)
    order = np.argsort(of_rows, kind="stable")
    return rows.take(order), of_rows[order], order.astype(np.uint32 if len(order) < 2**32 else np.int64)


def prepare_groups(
    data: ModelData,
    groups: Groups,
    group_pass: GroupPass,
    score: GroupScore,
    density: Density,
    condition: Callable[..., Any],
    remainders: Density | None,
    floor: float | None,
    progressbar: bool,
) -> PreparedGroups:
    """Sort the rows, find the centre, expand all groups there, and weigh the rows.

    Parameters
    ----------
    data : ModelData
    groups : Groups
    group_pass : GroupPass
    score : GroupScore
    density : Density
    condition : callable
        Of `build_condition`.
    remainders : Density or None
        The rows less their expansion; None where no test reads that.
    floor : float or None
        Share of uniform draws among weighted rows; None for no weights.
    progressbar : bool

    Raises
    ------
    GroupModeError
        Where no centre is found, or the derivatives of the likelihood fail their check.
    """
    rows, of_rows, order = sort_by_group(groups, data.rows)
    start = np.searchsorted(of_rows, np.arange(len(groups.own) + 1))
    centre = find_group_centre(data, rows, of_rows, group_pass, density.log_prior, condition)
    shifted = shift_to_mode(score, cached(condition), centre.mean, centre.factor, data, centre.expansion, rows, of_rows)
    n_directions = groups.own.shape[1] + groups.read.size
    passes = centre.passes * (1 + n_directions * (n_directions + 1) / 2) + (floor is not None)
    passes += shifted.evaluations * score.passes
    found = PreparedGroups(rows, order, start, centre.expansion, shifted.mean, centre.factor, None, passes)
    if remainders is None:
        return found
    rng, at = np.random.default_rng(2023), (data.others0, data.fixed)
    pairs = []
    for _ in range(_WEIGHT_PAIRS):
        z = rng.standard_normal(groups.own.shape)
        new, old = (found.theta(found.draw_shared(rng), z, condition, at) for _ in range(2))
        pairs.append((new, old))
    _check_derivatives(found, density, remainders, pairs[0], at)
    if floor is None:
        return found
    with setup_progress(progressbar) as progress:
        task = progress.add_task("Row weights", total=len(rows), what=f"{len(rows):,} rows")
        advance = partial(progress.advance, task)
        sizes = remainder_sizes(
            remainders.both_sides, pairs, data.others0, centre.expansion.centre, data.fixed, rows, advance
        )
    return found._replace(table=row_table(sizes, floor))


def _check_derivatives(
    found: PreparedGroups, density: Density, remainders: Density, pair: tuple[np.ndarray, np.ndarray], at: Any
) -> None:
    """Check the order of the remainders, and that what is known of a group's sum is what they leave out."""
    (theta_new, theta), (others, fixed), e = pair, at, found.expansion
    batch = tuple(a[:500] for a in found.rows.arrays)
    centre = Expansion(e.centre, e.read, e.shared_gradient, e.shared_hessian)
    wrong = check_order(remainders.both_sides, centre, 2, theta - e.centre, fixed, batch, theta.size)
    if wrong is not None:
        raise GroupModeError(f"The derivatives of the likelihood fail their check: {wrong}.")
    sizes = np.diff(found.start)
    for g in np.argsort(-sizes, kind="stable")[:_CHECKED]:
        moved = theta.copy()
        moved[e.own[g]] = theta_new[e.own[g]]
        batch = found.rows.take(np.arange(found.start[g], found.start[g + 1])).arrays
        new, old = density.both_sides(moved, theta, others, *fixed, *batch)
        left_new, left = remainders.both_sides(moved, theta, others, e.centre, *fixed, *batch)
        expected = ((new - left_new) - (old - left)).sum()
        known = own_sum(moved, g, e) - own_sum(theta, g, e)
        if abs(known - expected) > _RELATIVE_ERROR * (np.abs(new - old).sum() + np.abs(left).sum() + 1):
            raise GroupModeError(
                f"The expansion of group {g} changes by {known:.6g}, and that of its rows by {expected:.6g}: a "
                "derivative of the likelihood is wrong."
            )
