"""What is learnt of the groups from all rows before sampling: their order, centre, expansion, bounds and weights."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
from pymc.util import is_transformed_name

from pymc_austerity.bounds import NoRemainderBoundError
from pymc_austerity.cholesky import NoFactorError
from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.groups.crossed_means import find_tangent
from pymc_austerity.groups.group_averages import find_means, is_curved, steer_groups
from pymc_austerity.groups.group_bounds import find_group_bounds, no_bounds
from pymc_austerity.groups.group_conditional import Conditional
from pymc_austerity.groups.group_costs import GroupCosts, estimate_costs
from pymc_austerity.groups.group_expansion import GroupExpansion, own_changes, with_known_scale, with_shared
from pymc_austerity.groups.group_mode import GroupCentre, GroupModeError, find_group_centre
from pymc_austerity.groups.group_pass import chunks
from pymc_austerity.groups.group_search import GroupSearch
from pymc_austerity.groups.group_shifts import find_nested, find_shifts
from pymc_austerity.groups.group_tails import GroupTails, find_tails
from pymc_austerity.groups.prepared_groups import PreparedGroups, find_turns, rows_of_groups
from pymc_austerity.groups.shared_steps import find_shared_steps
from pymc_austerity.likelihood.layout import user_name
from pymc_austerity.progress import setup_progress
from pymc_austerity.proxy import Expansion, check_order, remainder_sizes
from pymc_austerity.rows.weighted import row_table

#: Carried moves by whose remainders rows are weighed.
_TYPICAL_MOVES = 4
#: Rows that a refresh reads by bounds, as a share of all, up to which that is better than reading all.
_WORTH = 0.25
#: Standard deviation of what the quadratic that steers leaves of all rows, above which it is called rough.
_MUCH = 0.6
#: How wide a bounded parameter is, how far out the rows are compared with their expansion, what that may leave of the
#: log-likelihood there, and parameters of a variable that are looked at.
_WIDE, _OUT, _LEFT, _LOOKED_AT = 0.2, 2.0, 2.0, 12
#: Groups whose known sums are compared with their rows, and what may differ.
_CHECKED, _RELATIVE_ERROR = 3, 1e-6


def prepare_groups(search: GroupSearch) -> PreparedGroups:
    """Find the centre, expand all groups there, and find bounds on what that leaves.

    Raises GroupModeError where no centre is found, or the derivatives of the likelihood fail their check.
    """
    model = search.model
    centre, steered, rough = _find_centre(search)
    expansion, n_directions = centre.expansion, len(model.group_pass.directions()[1])
    passes = steered.passes * (1 + search.multiples.n_pairs) + n_directions
    if search.multiples.times:
        expansion = search.expand(expansion.centre, in_full=True)._replace(precision=expansion.precision)
        steered = centre._replace(expansion=expansion) if steered is centre else steered
        passes += n_directions * (n_directions + 1) // 2 + 4 * n_directions
    if model.row_scale is not None:
        expansion = with_known_scale(expansion, model.row_scale, search.rows.n_table)
        steered = centre._replace(expansion=expansion)
    steering = _with_tangent(search, steered)
    shifts, nested = find_shifts(search, expansion.centre), find_nested(search, expansion.centre)
    passes += 4 * len(shifts) + 5 * expansion.own.shape[1]
    start, places = rows_of_groups(search.member, model.groups)
    learnt = steering, steered.mean, steered.factor
    found = PreparedGroups(
        search.rows, search.order, start, places, expansion, *learnt, None, shifts, nested,
        find_turns(expansion, model.groups.moves_together), find_shared_steps(search, *learnt),
        _find_tails(search, steering, steered.mean), None, None, "", passes, rough,
    )  # fmt: skip
    if not model.expands:
        return found._replace(without_bounds="the test decides on rows as they are")
    moves = _typical_moves(found, search)
    if model.row_scale is not None:
        _check_sums(found, search, *moves[0])
        nothing = GroupCosts(0.0, 0.0, 0.0, 0.0, 0.0)
        return found._replace(bounds=no_bounds(*expansion.cross.shape), costs=nothing, passes=passes + 2)
    _check_order(found, search, moves[0][1])
    _check_groups(found, search, *moves[0])
    found = _with_bounds(found, search)._replace(far_from_quadratic=_far_from_quadratic(found, search))
    return found._replace(costs=estimate_costs(search, moves, expansion, found.bounds))


def _find_centre(search: GroupSearch) -> tuple[GroupCentre, GroupCentre, bool]:
    """Return where the rows are expanded, the quadratic that steers there, and whether that leaves much of all rows."""
    together = search.model.groups.moves_together.any()
    try:
        centre = find_group_centre(search)
    except GroupModeError:
        if together:
            raise
        return *find_means(search), True
    if not together and not is_curved(search, centre.expansion):
        return *find_means(search), True
    if search.model.row_scale is not None:
        return centre, centre, False
    steered, left = steer_groups(search, centre)
    return centre, steered, left > _MUCH


def _far_from_quadratic(found: PreparedGroups, search: GroupSearch) -> tuple[str, ...]:
    """Return the bounded variables along which the rows leave their expansion, two standard deviations from the mean.

    Such is a rate of saturation of what hardly has an effect.
    """
    covariance, z, names = found.factor @ found.factor.T, np.zeros(found.expansion.own.shape), []
    sd, groups, centre = np.sqrt(np.diag(covariance)), search.model.groups, found.expansion.centre
    mean = search.surrogate.theta(found.mean, z, found.steering)
    for block in filter(lambda b: is_transformed_name(b.name), search.model.likelihood.blocks):
        within = np.isin(groups.shared, np.intersect1d(groups.read, np.arange(block.start, block.stop)))
        for k in np.flatnonzero(within & (sd > _WIDE))[:_LOOKED_AT]:
            sides = [found.mean + sign * _OUT * covariance[:, k] / sd[k] for sign in (-1, 1)]
            left = [search.left_of_rows(search.surrogate.theta(phi, z, found.steering), mean, centre) for phi in sides]
            if not np.abs(left).max() < _LEFT:
                names.append(user_name(block.name))
                break
    return tuple(names)


def _find_tails(search: GroupSearch, e: GroupExpansion, mean: np.ndarray) -> GroupTails:
    """Look at the laws of all groups at the centre of φ, those of one factor where all others are at their means."""
    model, theta = search.model, search.surrogate.marginal(mean, e)[1]
    factor = np.tril(search.surrogate.condition(theta, e).factor)
    absent = np.arange(e.own.shape[1]) >= e.size[:, None]
    factor[absent[:, :, None] & np.eye(e.own.shape[1], dtype=bool)] = 1.0
    inverse = np.linalg.inv(factor).transpose(0, 2, 1)  # u_g = m_g + C_g⁻ᵀz_g
    # Those of a factor of which rows read several groups cannot all be moved at once to look at each.
    together = model.groups.moves_together
    apart = [not together[f] and model.groups.factors.count(f) == 1 for f in range(len(together))]

    def log_law(k: int, x: float) -> np.ndarray:
        found = np.zeros(len(e.own))
        for f, (first, last) in enumerate(pairwise(e.first)):
            if not apart[f]:
                continue
            moved, some = theta.copy(), slice(first, last)
            of_group = np.arange(e.own.shape[1]) < e.size[some, None]
            moved[e.own[some][of_group]] += x * inverse[some, :, k][of_group]
            of_rows = np.concatenate(list(search.terms(moved)))
            members = search.member.of_rows[model.groups.factors.index(f)]
            found[some] = np.bincount(members, of_rows, len(e.own))[some]
            found[some] += model.prior.terms(moved, search.data.others0, *search.data.fixed)[0][some]
        return found

    return find_tails(log_law, np.where(np.repeat(apart, np.diff(e.first)), e.size, 0), e.own.shape[1])


def _with_bounds(found: PreparedGroups, search: GroupSearch) -> PreparedGroups:
    model, fixed = search.model, search.data.fixed
    if len(model.groups.factors) > len(model.groups.tied):
        return found._replace(without_bounds="rows read several groups of one factor")
    if model.likelihood.rounded is not None:
        return found._replace(without_bounds="the rows have kinks, about which no expansion has a bound")
    e, shared = found.expansion, (found.mean, found.factor)
    factor = _apart_from_others(search.surrogate.condition(e.centre, e), e)
    order = found.start, found.places
    try:
        bounds = find_group_bounds(model.likelihood, e, factor, shared, fixed, found.rows, order, _WORTH)
    except (NoRemainderBoundError, NoFactorError) as reason:
        return found._replace(without_bounds=str(reason))
    return found._replace(bounds=bounds, passes=found.passes + 1)


def _apart_from_others(given: Conditional, e: GroupExpansion) -> np.ndarray:
    """Return C_g; of groups that are tied to each other not given these, who would leave it little room."""
    factor, n = given.factor.copy(), e.own.shape[1]
    if e.ties.at.size:
        lower = np.tril(given.left)
        covariance = np.linalg.inv(lower @ lower.T)
        for g in np.unique(e.ties.at // n):
            own = slice(e.left[g], e.left[g] + e.size[g])
            factor[g, : e.size[g], : e.size[g]] = np.linalg.cholesky(np.linalg.inv(covariance[own, own]))
    return factor


def weigh_groups(found: PreparedGroups, search: GroupSearch, floor: float, progressbar: bool) -> PreparedGroups:
    """Weigh the rows for a carried move that reads some of them."""
    moves, rows, centre = _typical_moves(found, search), found.rows, found.expansion.centre
    seen, data = search.model.seen, search.data
    with setup_progress(progressbar) as progress:
        task = progress.add_task("Row weights", total=len(rows), what=f"{len(rows):,} rows")
        advance = partial(progress.advance, task)
        sizes = remainder_sizes(seen.both_sides, moves, data.others0, centre, data.fixed, rows, advance)
    return found._replace(table=row_table(sizes, floor), passes=found.passes + 1)


def _typical_moves(found: PreparedGroups, search: GroupSearch) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return θ′ and θ of some carried moves."""
    rng, moves = np.random.default_rng(2023), []
    for _ in range(_TYPICAL_MOVES):
        z = rng.standard_normal(search.model.groups.own.shape)
        new, old = (search.surrogate.theta(found.draw_shared(rng), z, found.steering) for _ in range(2))
        moves.append((new, old))
    return moves


def _with_tangent(search: GroupSearch, steered: GroupCentre) -> GroupExpansion:
    """Work the joint means out around the centre of φ, where they are searched for."""
    e = steered.expansion
    if not e.cell_with.size or e.left[-1]:
        return e

    def means(phi: np.ndarray) -> np.ndarray:
        found = search.surrogate.condition(with_shared(phi, e), e).mean
        return np.where(np.arange(found.shape[1]) < e.size[:, None], found - e.centre[e.own], 0.0)

    return e._replace(tangent=find_tangent(means, steered.mean, steered.factor))


def _check_order(found: PreparedGroups, search: GroupSearch, theta: np.ndarray) -> None:
    """Check the order of the remainders."""
    e, both_sides, fixed = found.expansion, search.model.smooth.seen.both_sides, search.data.fixed
    batch = tuple(a[:500] for a in found.rows.arrays)
    centre = Expansion(e.centre, e.read, e.shared_gradient, e.shared_hessian)
    wrong = check_order(both_sides, centre, 2, theta - e.centre, fixed, batch, theta.size)
    if wrong is not None:
        raise GroupModeError(f"The derivatives of the likelihood fail their check: {wrong}.")


def _check_groups(found: PreparedGroups, search: GroupSearch, theta_new: np.ndarray, theta: np.ndarray) -> None:
    """Check that what is known of a group's sum is what the remainders leave out."""
    e = found.expansion
    for g in np.argsort(-np.diff(found.start), kind="stable")[:_CHECKED]:
        moved = theta.copy()
        moved[e.own[g]] = theta_new[e.own[g]]
        batch = found.rows.take(found.rows_of(g)).arrays
        new, old = search.both_sides(moved, theta, batch)
        left_new, left = search.remainders(moved, theta, e.centre, batch)
        expected = ((new - left_new) - (old - left)).sum()
        known = own_changes(moved, theta, np.array([g]), by_reference(e))[0]
        if abs(known - expected) > _RELATIVE_ERROR * (np.abs(new - old).sum() + np.abs(left).sum() + 1):
            raise GroupModeError(
                f"The expansion of group {g} changes by {known:.6g}, and that of its rows by {expected:.6g}: a "
                "derivative of the likelihood is wrong."
            )


def _check_sums(found: PreparedGroups, search: GroupSearch, new: np.ndarray, old: np.ndarray) -> None:
    """Check that what is known of the sum over all rows is all that there is of it."""
    _check_groups(found, search, new, old)
    expected, size = 0.0, 1.0
    for batch in chunks(found.rows):
        rows_new, rows = search.both_sides(new, old, batch)
        expected, size = expected + float((rows_new - rows).sum()), size + float(np.abs(rows_new - rows).sum())
    known_sum, others = search.model.seen.known_sum, search.data.others0
    known = known_sum(new, others, found.expansion) - known_sum(old, others, found.expansion)
    if not abs(known - expected) <= _RELATIVE_ERROR * size:
        raise GroupModeError(
            f"The sum over all rows changes by {expected:.6g}, and by {known:.6g} as it follows from sums over the "
            "groups: a derivative of the likelihood is wrong."
        )
