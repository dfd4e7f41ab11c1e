"""What must be finite is a row's log-likelihood: limits of ±inf are taken, rows that a model cannot give are shown."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from rowwise import AS_WRITTEN, by_numpy, evaluated, moved, read

from pymc_austerity.likelihood import finite_rows, flatten
from pymc_austerity.rows import Rows

N = 60
_rng = np.random.default_rng(3)
X, Z = _rng.normal(size=N), np.clip(_rng.normal(size=N), -1.5, 1.5)
DEATH, CENSORED_AT = _rng.exponential(np.exp(0.5 * X)), _rng.uniform(0.5, 3, N)
TIME = np.minimum(DEATH, CENSORED_AT)
UPPER = np.where(DEATH > CENSORED_AT, CENSORED_AT, np.inf)
COUNT = _rng.poisson(2.0, N)
COLUMNS = np.stack([X, Z], axis=1)


def with_value(values, place, wrong):
    values = np.array(values)
    values[place] = wrong
    return values


def some(limit, where):
    return np.where(where, limit, np.inf * np.sign(limit))


def survival(upper):
    law = pm.Exponential.dist(pt.exp(pm.Normal("b") * X))
    return pm.Censored("t", law, lower=None, upper=upper, observed=TIME)


def tobit(lower, upper):
    def define():
        law = pm.Normal.dist(pm.Normal("b") * X, pm.HalfNormal("s"))
        pm.Censored("t", law, lower=lower, upper=upper, observed=np.clip(Z, -1, 1))

    return define


def truncated(lower, upper, of=pm.Normal, observed=Z):
    def define():
        mean = pm.Normal("b") * X
        law = of.dist(mean, pm.HalfNormal("s")) if of is not pm.Poisson else of.dist(pt.exp(mean))
        of_data = [pm.Data(name, v) if isinstance(v, list) else v for name, v in (("lower", lower), ("upper", upper))]
        pm.Truncated("t", law, lower=of_data[0], upper=of_data[1], observed=observed)

    return define


TAKEN = {
    "deaths at infinity": lambda: survival(UPPER),
    "deaths at infinity, pm.Data": lambda: survival(pm.Data("upper", UPPER)),
    "left, right and not censored": tobit(some(-1.0, Z < -1), some(1.0, Z > 1)),
    "truncated in some rows, pm.Data": truncated(list(some(-2.0, X > 0)), 2.0),
    "truncated above by a scalar infinity": truncated(-2.0, np.inf),
    "zero of a gamma law of shape 1": lambda: pm.Gamma(
        "t", 1.0, pm.HalfNormal("r"), observed=with_value(TIME, [5, 8], 0.0)
    ),
    "a limit that starts at a row": lambda: pm.Uniform("t", 0, pt.exp(pm.Normal("b")), observed=TIME / TIME.max()),
    "truncated counts": truncated(some(-1.0, X > 0), some(9.0, X > 0.5), pm.Poisson, np.minimum(COUNT, 9)),
}


@pytest.mark.parametrize("name", TAKEN)
def test_infinite_limits_are_taken_with_finite_derivatives(name):
    model, data = read(TAKEN[name])
    likelihood = data.likelihood
    slopes = pt.grad(likelihood.row_log_likelihood.sum(), likelihood.theta)
    evaluate = evaluated(likelihood, [likelihood.row_log_likelihood, slopes])
    with by_numpy:
        terms = model.compile_fn(model.logp(vars=model.observed_RVs, sum=False), mode=AS_WRITTEN)
    rng, at = np.random.default_rng(1), moved(data.point, 0.2)
    theta, empty = flatten(at, likelihood.blocks), np.empty(0)
    rows, slopes = evaluate(theta, empty, *data.fixed, *data.rows.arrays)
    # PyMC takes the root of 2 in a normal distribution function in single precision.
    np.testing.assert_allclose(rows, terms(at)[0], rtol=1e-7)
    assert np.isfinite(slopes).all()
    for j, h in enumerate(1e-6 * np.eye(len(theta))):
        sides = [evaluate(theta + s * h, empty, *data.fixed, *data.rows.arrays)[0].sum() for s in (1, -1)]
        assert slopes[j] == pytest.approx((sides[0] - sides[1]) / 2e-6, rel=1e-4, abs=1e-5)
    numbers = rng.integers(0, N, 9)
    batch, _ = evaluate(theta, empty, *data.fixed, *(a[numbers] for a in data.rows.arrays))
    np.testing.assert_allclose(batch, rows[numbers], rtol=1e-9)


def poisson(y, x=X):
    return lambda: pm.Poisson("y", pt.exp(pm.Normal("b") * x), observed=y)


BINARY = (X > 0).astype(int)
NOT_GIVEN = {
    "neither 0 nor 1": (
        lambda: pm.Bernoulli("y", logit_p=pm.Normal("b") * X, observed=with_value(BINARY, 7, 2)),
        r"row 7 \(-inf\) with .*'y' = 2",
    ),
    "negative counts": (poisson(with_value(COUNT, [3, 9], -1)), r"row 3 .*'y' = -1.*; row 9 .*'y' = -1"),
    "a covariate that is missing": (poisson(COUNT, with_value(X, 4, np.nan)), r"row 4 \(-inf\) with .* = nan"),
    "a covariate at infinity": (poisson(COUNT, with_value(X, 4, np.inf)), r"row 4 \(-inf\) with .* = inf"),
    "a standard deviation below 0": (
        lambda: pm.Normal("y", pm.Normal("b") * X, with_value(np.ones(N), 11, -1.0), observed=Z),
        r"starts: row 11 \(-inf\) with [^;]*= -1[^;]*\. Every",
    ),
    "all rows": (poisson(-1 - COUNT), r"row 0 .*; row 4 .*; and more rows"),
    "a variable over its own standard deviation": (
        lambda: pm.Bernoulli("y", logit_p=((z := pm.Normal("z", shape=3)) / z.std())[COUNT % 3], observed=BINARY),
        r"row 0 .*and more rows.*No row has one.*z / z.std\(\) is 0 / 0",
    ),
    "beyond a limit": (truncated(-2.0, with_value(np.full(N, np.inf), 8, -1.9)), r"row 8 \(-inf\) with .*'t' = "),
    "zero of a gamma law whose shape starts at 1": (
        lambda: pm.Gamma("y", pm.Exponential("a", 1), pm.HalfNormal("r"), observed=with_value(TIME, [5, 8], 0.0)),
        r"starts: row 5 \(-?inf as soon as parameters move\) with 'y' of 'y' = 0; row 8",
    ),
    "arrays without a name": (
        lambda: pm.Poisson(
            "y",
            pt.exp(COLUMNS @ pm.Normal("b", shape=2) + X * pm.Normal("c") + pm.Normal("u", shape=3)[COUNT % 3]),
            observed=with_value(COUNT, 5, -1),
        ),
        r"row 5 \(-inf\) with 'y' of 'y' = -1(?=.*, the index of 'u' of 'y' = \d)(?=.*, numbers times 'c' of 'y' = )"
        r".*, numbers \(60 x 2\) times 'b' of 'y' = \[",
    ),
    "too far out": (
        lambda: pm.Censored(
            "t", pm.Weibull.dist(3.0, pt.exp(pm.Normal("b") * X)), None, with_value(UPPER, 5, 99.0),
            observed=with_value(TIME, 5, 99.0),
        ),
        r"row 5 \(-inf\) with 't' of 't' = 99.*numbers without a name of 't' = 99.*their density may round to zero",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_GIVEN)
def test_rows_that_the_model_cannot_give_are_shown(name):
    define, words = NOT_GIVEN[name]
    with pytest.raises(ValueError, match=words) as error:
        read(define)
    assert "initval=" in str(error.value)
    assert "emove" not in str(error.value)  # a row may carry the information
    assert ("No row has one" in str(error.value)) == ("and more rows" in str(error.value))


def test_a_prior_without_a_starting_point_is_named():
    with pytest.raises(ValueError, match=r"initial point of \['b'\] is not finite"):
        read(lambda: pm.Normal("y", pm.Normal("b", np.nan, 1.0), 1.0, observed=Z))


def test_of_many_rows_those_with_infinite_data_are_evaluated(monkeypatch):
    monkeypatch.setattr(finite_rows, "MOST_EVALUATED", 10)
    read(TAKEN["deaths at infinity"])
    with pytest.raises(ValueError, match=r"row 4 \(-inf\)"):
        read(NOT_GIVEN["a covariate at infinity"][0])
    _, data = read(NOT_GIVEN["neither 0 nor 1"][0])
    with pytest.raises(ValueError, match=r"row 7 \(-inf\)"):
        data.require_finite_rows(thorough=True)


def test_new_data_are_looked_at():
    model, data = read(TAKEN["deaths at infinity, pm.Data"])
    with by_numpy:
        assert data.changed() is None
        with model:
            pm.set_data({"upper": np.full(N, np.inf)})
        assert data.changed() is not None
        with model:
            pm.set_data({"upper": with_value(UPPER, 2, TIME[2] / 2)})
        with pytest.raises(ValueError, match=r"row 2 \(-inf\) .*'upper' of 't' = "):
            data.changed()


def test_new_rows_may_have_infinite_limits():
    model, data = read(TAKEN["deaths at infinity, pm.Data"])
    arrays = [*data.rows.arrays]
    assert data.row_check(model)(tuple(arrays)) is None
    place = next(k for k, a in enumerate(arrays) if np.isinf(a).any())
    arrays[place] = with_value(arrays[place], 6, -np.inf)
    number, words = data.row_check(model)(tuple(arrays))
    assert number == 6
    assert "its log-likelihood is -inf where sampling starts, with" in words
    with pytest.raises(ValueError, match=r"Row 66 of the blocks \(place 66\): its log-likelihood is -inf"):
        data.require_finite_pieces([data.rows, Rows(tuple(arrays))], lambda row: f"place {row}")
