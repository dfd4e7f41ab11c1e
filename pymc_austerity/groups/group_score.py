"""The mode of the marginal of φ, found with the rows as they are and not with their expansion.

What the expansion leaves of a group's likelihood, integrated, tilts the marginal of φ by little; over G groups the
tilts add up, and in standard deviations of φ they grow with √G.  By Fisher's identity the slope of the marginal is

    ∂ log p(φ | y) = ∂ log p(φ) + Σ_g E[∂_φ log p(y_g, u_g | φ) | φ, y_g],

and each expectation is a quadrature about N(m_g(φ), Σ_g(φ)), corrected by weights (adaptive quadrature; Pinheiro and
Bates, Journal of Computational and Graphical Statistics 4, 1995).  The nodes of all groups are evaluated together.

With several factors the groups of one are moved to their nodes while those of the others are at their means, and what
each factor adds to the slope at all means is summed: to first order in the spread of the groups.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import grad
from scipy.special import ndtri, softmax

from pymc_austerity.compile.cache import kept
from pymc_austerity.compile.graph_compiler import compile_part, interpret_log_density
from pymc_austerity.groups.group_conditional import Conditional, ConditionOf, place_all
from pymc_austerity.groups.group_density import GroupPrior
from pymc_austerity.groups.group_expansion import GroupExpansion
from pymc_austerity.groups.group_pass import GroupPass, Membership, chunks
from pymc_austerity.groups.grouping import Groups
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import ModelData, RowLikelihood
from pymc_austerity.rows import Rows

#: Nodes along each of K axes; for more parameters a group, so many quasi-random ones and their mirror images, or K.
_NODES = {1: 7, 2: 5, 3: 3}
_QUASI_RANDOM = 32
#: Steps that the search takes at most, and the distance in standard deviations that is near enough.
_MOST_STEPS, _NEAR_ENOUGH = 4, 0.1


class Quadrature(NamedTuple):
    """Nodes for expectations under N(0, I).

    Attributes
    ----------
    nodes : numpy.ndarray, shape (M, K)
    log_weights : numpy.ndarray, shape (M,)
    """

    nodes: np.ndarray
    log_weights: np.ndarray


def quadrature(size: int) -> Quadrature:
    """Return nodes for K parameters a group; exact for polynomials of third order at least."""
    if size in _NODES:
        x, w = np.polynomial.hermite_e.hermegauss(_NODES[size])
        weights = np.array([np.prod(of) for of in product(w / w.sum(), repeat=size)])
        return Quadrature(np.array(list(product(x, repeat=size))), np.log(weights))
    from scipy.stats import qmc  # half a second to load, for the few models that come here

    # Halton's points in bases above 32 are next to collinear; these are in general position.
    power = int(np.ceil(np.log2(max(_QUASI_RANDOM, size))))
    points = ndtri(qmc.Sobol(size, seed=2011).random_base2(power))
    # A second moment off by a part in a hundred would be a slope that thousands of groups share.
    half = np.linalg.qr(points)[0] * np.sqrt(len(points))
    nodes = np.concatenate([half, -half])
    return Quadrature(nodes, np.full(len(nodes), -np.log(len(nodes))))


class GroupScore:
    """Evaluates the slope of the marginal of φ, in two passes over the data a node.

    Parameters
    ----------
    likelihood : RowLikelihood
    groups : Groups
    prior : GroupPrior
    group_pass : GroupPass
    options : dict
        Of the compiler.
    """

    def __init__(
        self,
        likelihood: RowLikelihood,
        groups: Groups,
        prior: GroupPrior,
        group_pass: GroupPass,
        options: dict[str, Any],
    ):
        self._terms, self._rows, self._first = prior.terms, group_pass.rows, groups.first
        self._quadratures = [quadrature(int(groups.size[first])) for first in groups.first[:-1]]
        theta, by_row, by_group, once = likelihood.theta, pt.dvector("by_row"), pt.dvector("by_group"), pt.dscalar()
        inputs = [theta, likelihood.others, *likelihood.fixed]
        rows = (by_row * likelihood.row_log_likelihood).sum()
        prior = once * likelihood.log_prior + (by_group * groups.log_prior).sum()
        slope_of_rows, slope_of_prior = (grad(of, theta, disconnected_inputs="ignore") for of in (rows, prior))
        self._slope_of_rows = compile_part([by_row, *inputs, *likelihood.batches], [slope_of_rows], **options)
        # Evaluated a few times, and rows know nothing of it: that of a covariance takes ten seconds to compile.
        self._slope_of_prior = interpret_log_density([by_group, once, *inputs], [slope_of_prior])

    @property
    def passes(self) -> int:
        """Passes over all rows of one evaluation."""
        nodes = sum(len(of.nodes) for of in self._quadratures)
        return 2 * nodes + (len(self._quadratures) > 1)

    def __call__(
        self, theta: np.ndarray, conditional: Conditional, data: ModelData, e: GroupExpansion, rows: Rows,
        member: Membership,
    ) -> np.ndarray:  # fmt: skip
        """Return ∂ log p(φ | y), shape (P,), at the φ in θ; numbers that are not finite where a node has no density.

        Parameters
        ----------
        theta : numpy.ndarray, shape (D,)
        conditional : Conditional
            At that φ.
        data : ModelData
        e : GroupExpansion
        rows : Rows
            Sorted by group.
        member : Membership
            Of these rows.
        """
        at, n_groups = (data.others0, *data.fixed), len(e.own)
        slope = self._slope_of_prior(-np.ones(n_groups), np.array(1.0), theta, *at)[0]
        for f in range(len(self._quadratures)):
            slope = slope + self._expected(f, theta, conditional, data, e, rows, member)
        if len(self._quadratures) > 1:
            means = theta.copy()
            kept(place_all)(means, np.zeros(e.own.shape), e, conditional)
            for batch in chunks(rows):
                once_too_often = np.full(len(batch[0]), 1.0 - len(self._quadratures))
                slope += self._slope_of_rows(once_too_often, means, *at, *batch)[0]
        return slope[e.shared]

    def _expected(
        self, f: int, theta: np.ndarray, conditional: Conditional, data: ModelData, e: GroupExpansion, rows: Rows,
        member: Membership,
    ) -> np.ndarray:  # fmt: skip
        """Return the expected slope of the rows and of the prior of one factor's groups, given the others' means."""
        at, n_groups, of_rows = (data.others0, *data.fixed), len(e.own), member.of_rows[f]
        groups, (nodes, log_weights) = slice(self._first[f], self._first[f + 1]), self._quadratures[f]
        log_weight, thetas = np.full((len(nodes), n_groups), -np.inf), []
        for m, z in enumerate(nodes):
            thetas.append(theta.copy())
            whitened = np.zeros(e.own.shape)
            whitened[groups, : z.size] = z
            kept(place_all)(thetas[m], whitened, e, conditional)
            of_node = np.concatenate(list(self._rows(thetas[m], data.others0, data.fixed, rows)))
            of_groups = self._terms(thetas[m], *at)[0] + z @ z / 2 + log_weights[m]
            log_weight[m, groups] = (of_groups + np.bincount(of_rows, of_node, n_groups))[groups]
        weight = np.zeros(log_weight.shape)
        weight[:, groups] = softmax(log_weight[:, groups], axis=0)
        slope = np.zeros(theta.size)
        for at_node, by_group in zip(thetas, weight, strict=True):
            slope = slope + self._slope_of_prior(by_group, np.array(0.0), at_node, *at)[0]
            for batch, (numbers,) in zip(chunks(rows), chunks(Rows((of_rows,))), strict=True):
                slope += self._slope_of_rows(by_group[numbers], at_node, *at, *batch)[0]
        return slope


class Shifted(NamedTuple):
    """Where the search for the mode ends.

    Attributes
    ----------
    mean : numpy.ndarray, shape (P,)
    evaluations : int
        Of the slope.
    """

    mean: np.ndarray
    evaluations: int


def shift_to_mode(
    score: GroupScore, condition: ConditionOf, mean: np.ndarray, factor: np.ndarray, data: ModelData,
    e: GroupExpansion, rows: Rows, member: Membership,
) -> Shifted:  # fmt: skip
    """Move the centre of φ from the mode of the surrogate's marginal to that of the marginal.

    By Newton steps with the covariance of the surrogate, taken as long as each makes the slope smaller.

    Parameters
    ----------
    score : GroupScore
    condition : ConditionOf
    mean, factor : numpy.ndarray, shapes (P,) and (P, P)
        Normal approximation of the marginal of φ.
    data, e, rows, member
        As of `GroupScore`.
    """
    best, smallest, phi = mean, np.inf, mean
    evaluations = 0
    while evaluations < _MOST_STEPS and smallest > _NEAR_ENOUGH:
        theta = e.centre.copy()
        theta[e.shared] = phi
        conditional = Conditional(*uninterrupted(condition, theta, data.others0, data.fixed, e))
        step = factor.T @ score(theta, conditional, data, e, rows, member)
        evaluations += 1
        size = float(np.linalg.norm(step))
        if not size < smallest:  # nor where it is no number
            break
        best, smallest, phi = phi, size, phi + factor @ step
    return Shifted(best, evaluations)
