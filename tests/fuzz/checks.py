"""What must hold of every model: rows add up to PyMC's density in any batching, bounds hold, refusals are our own."""

from __future__ import annotations

import traceback
import warnings
from collections import Counter
from functools import cached_property
from pathlib import Path

import numpy as np
import pytensor
from grammar import REORDERED, REPEATED, SPARSE
from pytensor.graph.traversal import ancestors

import pymc_austerity
from pymc_austerity.bounds import NoRemainderBoundError, RemainderBounds, is_quadratic_in_data, sums_of_squares
from pymc_austerity.compile.graph_compiler import AS_WRITTEN, BY_NUMPY
from pymc_austerity.likelihood import Density, check_rows, flatten, model_data, with_blocks
from pymc_austerity.likelihood.density import interpret_rows
from pymc_austerity.rows.merged import with_counts

PACKAGE = Path(pymc_austerity.__file__).parent
#: Relative difference of sums of the same numbers that were multiplied and added in another order.
ROUNDING = 1e-9


class Found(AssertionError):
    """What must not be: the fuzzer has found something."""


def own_words(error):
    """Whether an error is one of ours: raised on purpose, by this package, in words.

    That is a ValueError, a TypeError or one of our own kinds, not a kind of theirs that NumPy or SciPy raises, from a
    line of this package, with a sentence as its message.
    """
    kind = type(error)
    ours = kind in (ValueError, TypeError) or kind.__module__.startswith("pymc_austerity.")
    raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    return ours and PACKAGE in raised_in.parents and len(str(error).split()) >= 8


def tried(what, make):
    """Return what `make` returns, and None; or None and the error, where that is one of ours."""
    try:
        return make(), None
    except Found:
        raise
    except Exception as error:
        if own_words(error):
            return None, error
        where = "".join(traceback.format_exception(error)[-6:])
        raise Found(f"{what}: {type(error).__name__}, which is not ours: {error}\n{where}") from error


def evaluated(inputs, output):
    """Return a function that NumPy evaluates; a parameter outside its domain gives −∞, as where PyMC samples."""
    mode = BY_NUMPY.including("local_check_parameter_to_ninf_switch")
    return pytensor.function(inputs, output, mode=mode, on_unused_input="ignore")


class Split:
    """A model as the package reads it, with rows that NumPy evaluates, and PyMC's own density."""

    def __init__(self, model):
        self.model = model
        # Asked for here, where a planted mistake may stand in its place.
        self.data = model_data.read_model(model, model.value_vars, None, None, join=True)
        self.likelihood, self.rows = self.data.likelihood, self.data.rows
        parts = self.likelihood
        at = [parts.theta, *parts.fixed, *parts.batches]
        self._of_rows = evaluated(at, parts.row_log_likelihood)
        self._prior = evaluated([parts.theta, *parts.fixed], parts.log_prior)
        density = model.logp()
        self._pymc = evaluated(model.value_vars, density)
        single = any(getattr(v.type, "dtype", "") == "float32" for v in ancestors([density]))
        #: PyMC computes in single precision what it finds in it; this package does not.
        self.precision = 2e-6 if single else ROUNDING

    def points(self):
        """Yield points as PyMC and as this package hold them: near the initial point, and one far out."""
        rng, here = np.random.default_rng(3), flatten(self.data.point, self.likelihood.blocks)
        whole = np.concatenate(
            [np.full(b.stop - b.start, np.dtype(b.dtype).kind != "f") for b in self.likelihood.blocks]
        )
        for scale in (0.1 * self.widths, 0.5 * self.widths, 1.0):
            theta = here + np.where(whole, 0.0, scale * rng.standard_normal(here.size))
            yield with_blocks(self.data.point, theta, self.likelihood.blocks), theta

    @cached_property
    def widths(self):
        """How far each coordinate may be moved to change a row or the prior by one: its data may be in any unit."""

        def terms(theta):
            return np.append(self.of(theta, self.rows), self.prior(theta))

        theta = flatten(self.data.point, self.likelihood.blocks)
        here, found = terms(theta), np.ones(theta.size)
        for k, e in enumerate(np.eye(theta.size)):

            def change(width, e=e):
                there = terms(theta + width * e)
                return np.abs(there - here).max() if np.isfinite(there).all() else np.inf

            while found[k] > 1e-13 and change(found[k]) >= 3:
                found[k] /= 10
            while found[k] < 1e13 and 1.01 * change(found[k]) < change(10 * found[k]) < 3:
                found[k] *= 10
        return found

    def density(self, point):
        return float(self._pymc(*[point[v.name] for v in self.model.value_vars]))

    def as_written(self, point):
        """Return PyMC's density with none of PyTensor's rewrites."""
        values = self.model.value_vars
        density = pytensor.function(values, self.model.logp(), mode=AS_WRITTEN, on_unused_input="ignore")
        try:
            return float(density(*[point[v.name] for v in values]))
        except ValueError:  # a scale of exp(-1000) is zero
            return -np.inf

    def prior(self, theta):
        return float(self._prior(theta, *self.data.fixed))

    def of(self, theta, rows):
        return self._of_rows(theta, *self.data.fixed, *rows.arrays)


def agree(what, found, expected, size, precision=ROUNDING):
    """Compare numbers that are sums of numbers of some size."""
    far = ~(np.abs(np.asarray(found) - expected) <= precision * (1 + size))
    if np.any(far):
        raise Found(f"{what}: {np.asarray(found)[far].flat[0]!r} in place of {np.asarray(expected)[far].flat[0]!r}")


def check_sums(split):
    """Rows and prior are PyMC's density, and a batch of rows, some of them twice, has the terms of these rows."""
    rng, n_points = np.random.default_rng(4), 0
    for point, theta in split.points():
        expected = split.density(point)
        rows = split.of(theta, split.rows)
        if not (np.isfinite(expected) and np.isfinite(rows).all()):
            # The reverse is an underflow of PyMC's; exp(η) may be infinite in one of two ways of writing a row: far out
            # that is a density beyond 1e15, or ∞/∞.
            far_out = abs(expected) > 1e15 or (n_points == 2 and np.isnan(rows).any())
            # Beyond 700 a row exp(η) is infinite, and PyMC's density may be finite only because a rewrite removed it.
            far_out |= abs(expected) > 700 * len(split.rows) and not np.isfinite(split.as_written(point))
            if np.isfinite(expected) and not far_out:
                raise Found(f"the density is {expected} by PyMC and {rows.sum() + split.prior(theta)} by rows")
            continue
        n_points += 1
        if rows.shape != (len(split.rows),):
            raise Found(f"{rows.shape} terms for {len(split.rows)} rows")
        size = np.abs(rows).sum() + abs(split.prior(theta))
        total = rows.sum() + split.prior(theta)
        agree("prior and rows against PyMC's density", total, expected, size, split.precision)
        largest = np.abs(rows).max()
        for m in (1, 2, len(rows) // 2, len(rows), len(rows) + 3):
            numbers = rng.integers(0, len(rows), m)
            agree(f"a batch of {m} rows", split.of(theta, split.rows.take(numbers)), rows[numbers], largest)
    return n_points


def check_as_steps_do(split):
    """The check of rows that a step makes when it is built finds nothing wrong."""
    density = Density(lambda *at: (np.array(0.0),), interpret_rows(split.likelihood))
    check_rows(split.data.derived or split.model, split.data, density)


def check_merged(split, build):
    """Rows that repeat each other, merged with their counts, have the same sum."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        repeated = Split(build(REPEATED))
    counted = repeated.likelihood.counted()
    merged = with_counts(repeated.rows)
    of_rows = evaluated([counted.theta, *counted.fixed, *counted.batches], counted.row_log_likelihood)
    for _, theta in repeated.points():
        rows = repeated.of(theta, repeated.rows)
        if np.isfinite(rows).all():
            found = of_rows(theta, *repeated.data.fixed, *merged.arrays).sum()
            agree("rows merged with their counts", found, rows.sum(), np.abs(rows).sum())


def check_form(split, model, what):
    """The same model in another form has the same density."""
    other = Split(model)
    for point, theta in split.points():
        rows, others = split.of(theta, split.rows), other.of(theta, other.rows)
        if np.isfinite(rows).all():
            agree(what, others.sum(), rows.sum(), np.abs(rows).sum())
            densities = other.density(point), split.density(point)
            if np.isfinite(densities).all():
                size = np.abs(rows).sum() + abs(densities[1])  # the prior may be larger than the rows
                agree(f"{what}, PyMC's density", *densities, size, split.precision)


def check_moments(split):
    """Where sums over the data determine the likelihood, a few rows with the same sums have the same log-likelihood."""
    double = all(batch.type.dtype == "float64" for batch in split.likelihood.batches)  # as rows that were made are
    if not double or not is_quadratic_in_data(split.likelihood):
        return False
    few, weight = sums_of_squares.moment_rows(split.rows)
    for _, theta in split.points():
        rows = split.of(theta, split.rows)
        agree("sums over the data", weight * split.of(theta, few).sum(), rows.sum(), np.abs(rows).sum())
    return True


#: Points of a line, in units of its length, and the weights of a difference that no polynomial of second, and of
#: third, degree survives.
DIFFERENCES = {2: ((-1, -1 / 3, 1 / 3, 1), (-1, 3, -3, 1)), 3: ((-1, -0.5, 0, 0.5, 1), (1, -4, 6, -4, 1))}


def rounding(split, theta, step):
    """Return how far rows are rounded near a point: second differences that are too close to show a curvature.

    log(1 - Φ(η)) has no more than eight digits where Φ(η) is rounded to 1 - 1e-8.
    """
    here = split.of(theta, split.rows)
    around = ([split.of(theta + sign * k * 1e-9 * step, split.rows) for sign in (-1, 1)] for k in (1, 10, 100))
    return np.nan_to_num(np.max([np.abs(a - 2 * here + b) for a, b in around], axis=0), nan=0.0, posinf=0.0)


def check_bounds(split, order):
    """No row changes along a line by more than its expansion and the bound on what that leaves allow.

    Of any function with |ℓ − q| ≤ c|t|^(k+1) a difference of order k + 1 is at most c Σ|w_j||t_j|^(k+1): the expansion
    q does not enter.  Bounds that hold may be asked of any centre, width and radius.
    """
    rng, size = np.random.default_rng(5), split.likelihood.theta_size
    try:
        bounds = RemainderBounds(split.likelihood, order)
    except NoRemainderBoundError:
        return False
    shares, weights = map(np.array, DIFFERENCES[order])
    checked = False
    for spread, radius in ((0.0, 3.0), (0.4, 1.0)):
        centre = flatten(split.data.point, split.likelihood.blocks)
        centre = centre + spread * rng.standard_normal(size) * split.widths
        factor = np.diag(split.widths * rng.uniform(0.05, 0.4, size))
        try:
            c = bounds(centre, factor, radius, split.data.fixed, split.rows)
        except NoRemainderBoundError:
            return False
        for direction in directions(split, centre, factor, rng):
            at = [split.of(centre + factor @ (radius * s * direction), split.rows) for s in shares]
            difference = np.abs(sum(w * a for w, a in zip(weights, at, strict=True)))
            allowed = c * radius ** (order + 1) * (np.abs(weights) @ np.abs(shares) ** (order + 1))
            noise = 1e-12 * (1 + sum(abs(w) * np.abs(a) for w, a in zip(weights, at, strict=True)))
            noise += np.abs(weights).sum() * rounding(split, centre, factor @ (radius * direction))
            broken = np.flatnonzero(np.isfinite(difference) & (difference > allowed + noise))
            checked = checked or bool(np.isfinite(c).any())
            if broken.size:
                i = broken[np.argmax(difference[broken] - allowed[broken])]
                raise Found(f"bound of order {order}, row {i}: {difference[i]:.6g} where {allowed[i]:.6g} is allowed")
    return checked


def directions(split, centre, factor, rng, n=3):
    """Return directions at random, and those along which single rows change most."""
    size, step = len(centre), 1e-5
    here = split.of(centre, split.rows)
    slopes = np.array([split.of(centre + step * column, split.rows) - here for column in factor.T]).T
    chosen = slopes[rng.integers(0, len(here), n)]
    both = np.concatenate([rng.normal(size=(n, size)), chosen[np.isfinite(chosen).all(axis=1)]])
    lengths = np.linalg.norm(both, axis=1)
    return both[lengths > 0] / lengths[lengths > 0, None]


def check(program):
    """Check a model by NumPy alone, and return what was seen of it; raise `Found` where something is wrong."""
    seen = Counter(models=1)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        split, refused = tried("reading the model", lambda: Split(program.build()))
        if refused:
            seen["refused"] += 1
            if program.splits:
                seen[f"refused, though it splits: {str(refused)[:150]}"] += 1
            return seen
        read = split.data.derived or split.model
        # Outcomes of fewer rows than others, tied together or not, may be left with the prior.
        outcomes = {*read.observed_RVs, *(v for v in read.potentials if v.name.startswith("y"))}
        if not program.splits and outcomes <= set(split.data.terms.all):
            raise Found("rows that are tied together are taken for independent ones")
        seen["points"] += check_sums(split)
        seen["with sums"] += check_moments(split)
        for order in (2, 3):
            seen[f"bounds of order {order}"] += check_bounds(split, order)
        if program.seed % 3 == 2:
            check_as_steps_do(split)
        if program.seed % 3 == 0:
            check_merged(split, program.build)
        if program.seed % 3 == 1:
            check_form(split, program.build(REORDERED), "rows in another order")
        if program.sparse:
            check_form(split, program.build(SPARSE), "sparse products")
            seen["sparse"] += 1
    return seen
