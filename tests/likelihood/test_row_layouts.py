"""Rows on any axis, in long tables, batches of matrices and series split, however they are written."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from rowwise import AS_WRITTEN, by_numpy, evaluated, moved, read

from pymc_austerity.groups import GroupsNotFoundError
from pymc_austerity.groups.grouping import find_groups
from pymc_austerity.likelihood import NotRowWiseError, flatten, row_predictor
from pymc_austerity.likelihood.scans import MOST_STEPS
from pymc_austerity.unsupported_model import UnsupportedModelError

try:
    from pytensor.conditional.op import ifelse
except ImportError:  # PyTensor 2
    from pytensor.ifelse import ifelse

pytestmark = pytest.mark.versions

N, K = 40, 4
_rng = np.random.default_rng(39)
X = _rng.normal(size=(N, 3))
XT = np.ascontiguousarray(X.T)
Y, Y2 = _rng.normal(size=N), _rng.normal(size=(N, 2))
CHOICE = _rng.integers(0, K, N)
TABLE = _rng.normal(size=(N, K, 2))
LONG, ALTERNATIVE = TABLE.reshape(-1, 2), np.tile(np.arange(K), N)
ALTERNATIVES_FIRST = np.ascontiguousarray(np.moveaxis(TABLE, 1, 0))
COV = np.eye(2) * _rng.uniform(0.5, 2, size=(N, 1, 1)) + 0.2
CHOL = np.linalg.cholesky(COV)
WALK = _rng.normal(size=(N, 5)).cumsum(axis=1)
GROUP = _rng.integers(0, 6, N)


def beta(k=3):
    return pm.Normal("beta", shape=k)


def scale():
    return pm.HalfNormal("s")


def normal(mu, observed=Y):
    return lambda: pm.Normal("y", mu(), 1.0, observed=observed)


def choice(logits):
    return lambda: pm.Categorical("y", logit_p=logits(), observed=CHOICE)


def log_softmax(axis=1):
    x, b = (X, beta()) if axis else (XT, beta()[:, None])
    return pt.special.log_softmax(x * b, axis=axis)


def potential(term):
    return lambda: pm.Potential("y", term())


def log_softmax_of(k):
    model = pm.modelcontext(None)
    return (model["beta"] if k else beta())[k] * X[:, k]


def centred(x):
    return x - x.mean(axis=1, keepdims=True)


def matrix_normal(**given):
    return lambda: pm.MvNormal("y", beta(2), observed=Y2, **{name: make() for name, make in given.items()})


def components_first():
    w, mu = pm.Dirichlet("w", np.ones(2)), pm.Normal("mu", [-1.0, 1.0], 1)
    return pt.logsumexp(pt.log(w)[:, None] - 0.5 * (Y[None, :] - mu[:, None]) ** 2, axis=0)


def weights_of_rows():
    w = pm.math.softmax(beta((2, 3)) @ XT, axis=0).T
    pm.Mixture("y", w=w, comp_dists=pm.Normal.dist(pm.Normal("mu", shape=2), 1.0), observed=Y)


def outcomes_first_beside_one():
    m = pm.Normal("m", shape=2)
    pm.Normal("y", m[:, None] * X[:, 0], 1.0, observed=np.tile(Y2.T, (1, 1)))
    pm.Normal("z", m[0], 1.0, observed=Y)


def two_walks():
    start = pm.MvNormal.dist(np.zeros(2), np.eye(2))
    walks = np.stack([WALK, WALK[::-1]], axis=-1)
    pm.MvGaussianRandomWalk("y", mu=beta(2), cov=np.eye(2) * scale(), init_dist=start, observed=walks)


def volatility(steps):
    """Variances of a GARCH(1, 1) with one series a row, by a function that adds one step to the other."""
    a, b = pm.Beta("a", 2, 5), pm.Beta("b", 2, 2)
    start = scale() * pt.ones(N)
    following = steps(lambda y, v, start, a, b: start + a * y**2 + b * v, start, [start, a, b])
    pm.Normal("y", 0.0, pt.sqrt(pt.concatenate([start[None], following]).T), observed=WALK)


def by_scan(step, start, others, series=WALK):
    found = pytensor.scan(step, [pt.as_tensor(series.T[:-1])], [start], others)
    return found[0] if isinstance(found, tuple) else found  # PyTensor 2 returns updates too


def two_states_and_two_lags():
    """A scan with two states, one of which reads two steps before, and an output that is none."""

    def step(y, before, last, level, b):
        new = b * last + 0.1 * before
        return new, level + 0.1 * y, new + y

    b, start = beta(1)[0], pt.ones((2, N))
    states = [{"initial": start, "taps": [-2, -1]}, pt.zeros(N), None]
    found = pytensor.scan(step, [pt.as_tensor(WALK.T)], states, [b])
    _, level, sums = found[0] if len(found) == 2 else found
    pm.Normal("y", (level + sums).T, 1.0, observed=WALK)


def volatility_of_pymc():
    pm.GARCH11("y", omega=scale(), alpha_1=pm.Beta("a", 2, 5), beta_1=0.3, initial_vol=1.0, observed=WALK)


def residuals(outcome=Y):
    return outcome - X @ beta()


def two_sums():
    r, s = residuals(), scale()
    return s * pt.sum(-pt.abs(r)) / 2 - pt.sum(pt.sum(0.1 * (Y2 - s) ** 2, axis=1)) + pt.sum(-(s**2))


def observed_parameters():
    """Numbers that are data themselves, and say something about parameters of their own law."""
    u = pm.Normal("u", pm.Normal("m"), 1.0, observed=Y[:6])
    pm.Normal("y", u[GROUP] * beta(1)[0], pm.HalfNormal("s", observed=pm.Data("width", 1.2)), observed=Y)


def flat(position, of=log_softmax):
    return potential(lambda: of().flatten()[position()])


SPLIT = {
    "dot with the transpose": normal(lambda: pm.math.dot(beta(), X.T)),
    "a transposed array": normal(lambda: beta() @ XT),
    "pm.Data, turned": normal(lambda: pm.math.dot(beta(), pm.Data("x", XT))),
    "rows of pm.Data": normal(lambda: (x := pm.Data("x", XT))[0] * (b := beta())[0] + b[1] * x[1] + b[2] * x[2]),
    "outcomes first": normal(lambda: beta((2, 3)) @ XT, np.ascontiguousarray(Y2.T)),
    "groups on the second axis": normal(lambda: (b := beta((2, 6))[:, GROUP])[0] + b[1] * X[:, 0]),
    "components first": potential(components_first),
    "weights of rows, transposed": weights_of_rows,
    "choices by dot": choice(lambda: pt.dot(TABLE, beta(2))),
    "choices by tensordot": choice(lambda: pt.tensordot(TABLE, beta(2), axes=1)),
    "outcomes first, beside rows": outcomes_first_beside_one,
    "choices by einsum, turned": choice(lambda: pt.einsum("j,nkj->nk", beta(2), pm.Data("table", TABLE))),
    "choices, alternatives first": choice(lambda: pt.dot(ALTERNATIVES_FIRST, beta(2)).T),
    "choices reshaped": choice(lambda: pt.dot(pt.as_tensor(TABLE).reshape((N * K, 2)), beta(2)).reshape((-1, K))),
    "choices in a long table": choice(lambda: (LONG @ beta(2) + pm.Normal("a", shape=K)[ALTERNATIVE]).reshape((N, K))),
    "choices in a long pm.Data": choice(lambda: pt.dot(pm.Data("x", LONG), beta(2)).reshape((-1, K))),
    "choices in a long table, alternatives first": choice(
        lambda: pt.dot(ALTERNATIVES_FIRST.reshape(-1, 2), beta(2)).reshape((K, N)).T
    ),
    "one vector of logits": choice(lambda: beta(K)),
    "covariances and more": matrix_normal(cov=lambda: COV + scale() * np.eye(2)),
    "Cholesky factors": matrix_normal(chol=lambda: scale() * pm.Data("chol", CHOL)),
    "precisions": matrix_normal(tau=lambda: np.linalg.inv(COV)),
    "chosen by numbers": potential(lambda: log_softmax()[np.arange(N), CHOICE % 3]),
    "chosen by arange": potential(lambda: log_softmax()[pt.arange(N), pm.Data("k", CHOICE % 3)]),
    "chosen, rows last": potential(lambda: log_softmax(0)[CHOICE % 3, np.arange(N)]),
    "chosen by two columns": potential(lambda: log_softmax()[np.arange(N)[:, None], CHOICE[:, None] % 3][:, 0]),
    "chosen in a flat table": flat(lambda: np.arange(N) * 3 + CHOICE % 3),
    "chosen along an axis": potential(lambda: pt.take_along_axis(log_softmax(), CHOICE[:, None] % 3, axis=1)[:, 0]),
    "numbers of rows as data too": potential(
        lambda: log_softmax()[np.arange(N), CHOICE % 3] + pm.Normal("trend") * np.arange(N) / N
    ),
    "chosen by both in pm.Data": potential(
        lambda: log_softmax()[pm.Data("i", np.arange(N)), pm.Data("k", CHOICE % 3)]
    ),
    "chosen by a mask": potential(lambda: log_softmax()[np.eye(3, dtype=bool)[CHOICE % 3]]),
    "chosen in a flat table, pm.Data": flat(lambda: pm.Data("i", np.arange(N) * 3 + CHOICE % 3)),
    "chosen in a flat table, rows last": flat(lambda: CHOICE % 3 * N + np.arange(N), lambda: log_softmax(0)),
    "chosen in a flat table, its shape": potential(
        lambda: (lp := log_softmax()).ravel()[pt.arange(lp.shape[0]) * lp.shape[1] + CHOICE % 3]
    ),
    "rows of an array by their numbers": normal(lambda: beta(1)[0] * pt.as_tensor(Y2)[pm.Data("i", np.arange(N)), 1]),
    "rows of an array by other numbers": normal(lambda: beta(1)[0] * pm.Data("x", X[:, 0])[GROUP]),
    "random walks": lambda: pm.GaussianRandomWalk("y", sigma=scale(), init_dist=pm.Normal.dist(), observed=WALK),
    "autoregressions": lambda: pm.AR("y", beta(1), scale(), init_dist=pm.Normal.dist(shape=1), observed=WALK),
    "random walks of two": two_walks,
    "volatilities by a scan": lambda: volatility(by_scan),
    "volatilities by pm.GARCH11": volatility_of_pymc,
    "two states by a scan": two_states_and_two_lags,
    "a sum and numbers beside it": potential(
        lambda: -0.5 * pt.sum((residuals() / (s := scale())) ** 2) - N * pt.log(s)
    ),
    "a product of vectors": potential(lambda: -0.5 * (r := residuals()) @ r),
    "a trace of products of rows": potential(lambda: -pt.diagonal(pt.dot((r := X - beta()).T, r)).sum()),
    "sums, times and divided by numbers": potential(two_sums),
    "a mean": potential(lambda: -N * pt.mean(residuals(pm.Data("y_data", Y)) ** 2)),
    "a squared norm": potential(lambda: -0.5 * pt.linalg.norm(residuals()) ** 2 - N * pt.log(scale())),
    "an einsum over rows": potential(lambda: -pt.einsum("i,i->", (r := residuals()) ** 2, pt.exp(r))),
    "a diagonal of products of rows": potential(lambda: -pt.diag(pt.dot(r := X - beta(), r.T)).sum()),
    "a sum or another": potential(lambda: pt.where(scale() > 0.5, -(r := residuals() ** 2).sum(), -2 * pt.dot(r, r))),
    "lengths beside a sum": potential(lambda: (of := -(residuals() ** 2)).sum() - of.shape[0] * pt.log(scale())),
    "sums put together": potential(
        lambda: -pt.stack([pt.sum((x - pm.Normal(name)) ** 2) for name, x in zip("ab", Y2.T)]).sum()
    ),
    "columns sorted": normal(lambda: pt.sort(X * beta(), axis=1)[:, 0]),
    "a sum beside an outcome": lambda: (
        pm.Normal("z", eta := X @ beta(), 1.0, observed=Y), pm.Potential("y", pt.sum(-((Y2[:, 0] - eta) ** 2)))
    ),
    "observed variables as parameters": observed_parameters,
    "chosen by pt.choose": potential(lambda: pt.choose(CHOICE % 3, [log_softmax_of(k) for k in range(3)])),
    "chosen by pt.choose in a table": potential(lambda: pt.choose(pm.Data("k", CHOICE % 3), log_softmax().T)),
    "chosen by pt.choose, wrapped": potential(lambda: pt.choose(CHOICE - 3, log_softmax(0), mode="wrap")),
    "chosen by pt.choose, clipped": potential(lambda: pt.choose(CHOICE - 1, log_softmax(0), mode="clip")),
    "chosen by a marked table": potential(lambda: (log_softmax() * pt.extra_ops.to_one_hot(CHOICE % 3, 3)).sum(axis=1)),
    "chosen by where a mask is": potential(lambda: log_softmax()[pt.as_tensor(np.eye(3)[CHOICE % 3]).nonzero()]),
    "constants less their mean": normal(lambda: beta() @ centred(pt.as_tensor(XT)) / pt.as_tensor(X).std()),
    "coefficients repeated": normal(lambda: (pt.repeat(beta()[None, :], N, axis=0) * X).sum(axis=1)),
    "coefficients tiled": normal(lambda: (pt.tile(beta(), (N, 1)) * X).sum(axis=1)),
    "one branch or the other": normal(lambda: ifelse(pt.gt((b := beta(1))[0], 0), b * X[:, 0], -2 * b * X[:, 1])),
    "parameters with dims repeated": normal(
        lambda: (
            pm.modelcontext(None).add_coord("unit", range(4)),
            pt.repeat(pm.Deterministic("twice", 2 * pm.Normal("beta", dims="unit"), dims="unit"), 10),
        )[1]
    ),
    "parameters repeated by counts": normal(lambda: pt.repeat(beta(4), [5, 5, 10, 20])),
    "parameters tiled": normal(lambda: pt.tile(beta(4), 10) * X[:, 1]),
    "parameters put together several times": normal(lambda: pt.concatenate([b := beta(20), b])),
    "parameters repeated with their axis": normal(lambda: (pt.repeat(beta((10, 3)), 4, axis=0) * X).sum(axis=1)),
    "a table of two factors, flattened": normal(lambda: (beta(20)[:, None] + pm.Normal("c", shape=2)).flatten()),
    "a table of data and parameters, flattened": normal(
        lambda: (pt.as_tensor(X[:20, :1]) * beta(2) + pm.Normal("a")).T.flatten()
    ),
    "the first rows of longer constants": normal(lambda: pt.as_tensor(np.tile(X, (2, 1)))[:N] @ beta()),
}  # fmt: skip


@pytest.mark.parametrize("name", SPLIT)
def test_rows_in_any_batch_sum_to_the_log_density(name):
    model, data = read(SPLIT[name])
    likelihood, arrays = data.likelihood, data.rows.arrays
    assert likelihood.n_rows == N
    assert all(array.flags.c_contiguous for array in arrays)
    slopes = pt.grad(likelihood.row_log_likelihood.sum(), likelihood.theta)
    evaluate = evaluated(likelihood, [likelihood.log_prior, likelihood.row_log_likelihood, slopes])
    with by_numpy:
        full = model.compile_logp(mode=AS_WRITTEN)
    rng, point = np.random.default_rng(1), moved(data.point, 0.2)
    theta = flatten(point, likelihood.blocks)
    log_prior, rows, slopes = evaluate(theta, np.empty(0), *data.fixed, *arrays)
    np.testing.assert_allclose(log_prior + rows.sum(), full(point), rtol=1e-8)
    assert np.isfinite(slopes).all()
    for size in (1, 7):
        numbers = rng.integers(0, N, size)
        _, batch, _ = evaluate(theta, np.empty(0), *data.fixed, *(a[numbers] for a in arrays))
        np.testing.assert_allclose(batch, rows[numbers], rtol=1e-9)


def a_lag(y, observed):
    pm.Normal("y", pm.Normal("rho") * y[:-1], 1.0, observed=observed)


def drift():
    return -((pt.diff(pm.Data("series", Y)) - pm.Normal("drift")) ** 2).sum()


def of_number(number):
    return potential(lambda: number(-(residuals() ** 2)))


LAG = r"'y' does not split into rows: .*\(a lag, as in x\[:-1\]\)"
NO_SUM = "'y' reads an array with 40 rows but .* not shown to be a sum over them"
REFUSED = [
    # The table of the rows as it is, whose columns are not those of its transpose.
    (normal(lambda: pm.Data("x", XT).reshape((N, 3)) @ beta()), "'y'"),
    (potential(lambda: log_softmax()[np.arange(N)[::-1], CHOICE % 3]), "'y'"),
    (potential(lambda: log_softmax()[pm.Data("r", np.arange(N)[::-1]), CHOICE % 3]), "'y'"),
    (flat(lambda: (np.arange(N) * 3 + CHOICE % 3 + 3) % (3 * N)), "'y'"),  # entries of the row before
    (potential(lambda: log_softmax()[np.roll(np.eye(N, 3, dtype=bool), 1, axis=1)]), "'y'"),  # two marks in a row
    (lambda: volatility(lambda step, *of: by_scan(lambda y, v, *o: step(y, v.mean(), *o), *of)), "'y'"),
    (normal(lambda: beta() @ centred(pm.Data("x", XT))), "'y'"),
    (lambda: a_lag(y := pm.Data("series", Y), y[1:]), LAG),
    (lambda: a_lag(pt.as_tensor(Y), Y[1:]), LAG),
    (potential(drift), LAG),
    (normal(lambda: pm.Normal("b") * pt.concatenate([[0.0], pm.Data("series", X[:, 0])[:-1]])), LAG),
    (of_number(lambda of: pt.sum(of) ** 2), NO_SUM),
    (of_number(pt.max), NO_SUM),
    (of_number(lambda of: pt.switch(of.sum() < 0, of.sum(), -np.inf)), NO_SUM),
    (potential(lambda: -pt.sum(pt.log(pt.cumsum(pt.exp(X @ beta()))))), "accumulated one after the other"),
    (
        normal(lambda: beta(1) * pt.set_subtensor(pt.as_tensor(Y)[::4], pm.Normal("missing", shape=10))),
        "'missing' has 10 entries that belong to single rows",
    ),
    (
        lambda: volatility(lambda *given: by_scan(*given, series=np.zeros((N, MOST_STEPS + 2)))),
        f"over {MOST_STEPS + 1} steps",
    ),
    (normal(lambda: pt.pad(pt.as_tensor(X[:-1]) @ beta(), (1, 0))), "rows are padded inside the model"),
    (normal(lambda: pt.concatenate([X[:9] @ (b := beta()), X[9:, :2] @ b[:2]])), "put together .* of 9 and 31 rows"),
    (normal(lambda: pt.stack([x @ b for b in [beta()] for x in X])), "computed one by one .* Write .* X @ beta"),
    (
        normal(lambda: (pt.bincount(GROUP, weights=pm.Data("x", X[:, 0])) / np.bincount(GROUP))[GROUP] * beta(1)),
        "added up by their numbers|Compute statistics over rows outside",
    ),
    (potential(lambda: -0.5 * (b := beta()) @ (X.T @ X) @ b + b @ (X.T @ Y)), "as a Gram matrix"),
    (normal(lambda: pt.diag(pm.Data("x", X) @ XT) * beta(1)), r"Write \(A \* B.T\).sum\(axis=1\)"),
    (normal(lambda: pt.diag(pm.Data("w", X[:, 0])) @ (X @ beta())), "Multiply by the entries themselves"),
    (normal(lambda: pt.cumsum(pt.repeat(beta(20), 2))), r"what has shape \(40,\) computed from 'beta'"),
    (normal(lambda: (pt.as_tensor(X[:20]) @ beta((3, 2))).ravel()), r"observed=y.reshape\(\(20, 2\)\)"),
    (normal(lambda: pt.repeat(pm.Data("z", X[:20, 0]), 2) * beta(1)), r"observed=y.reshape\(\(-1, 2\)\)"),
    (normal(lambda: X @ beta(), Y[:, None]), r"write mu\[:, None\] .* or give it as y\[:, 0\]"),
    (lambda: (beta(), pm.Interpolated("y", np.arange(-9.0, 9), np.ones(18), observed=Y)), "Leave it out"),
    (lambda: pm.Simulator("y", lambda rng, b, size: b + Y, beta(1), observed=Y), "with pm.sample_smc"),
    (lambda: pm.CustomDist("y", X @ beta(), random=lambda mu, rng, size: mu, observed=Y), "no log density of 'y'"),
]


@pytest.mark.filterwarnings("ignore:.*RandomVariable:DeprecationWarning")  # of PyMC's own
@pytest.mark.parametrize(("define", "said"), REFUSED)
def test_what_cannot_be_read_is_refused_for_its_reason(define, said):
    with pytest.raises(NotRowWiseError, match=said):
        read(define)


@pytest.mark.parametrize(
    ("define", "said"),
    [
        (
            lambda: (lambda b: pm.CustomDist("y", logp=lambda value: value - X @ b, observed=Y))(beta()),
            "of 'y' reads beta as a draw",
        ),
        (normal(lambda: X @ pm.Normal.dist(shape=3) + beta(1)), "reads a draw without a name as a draw"),
        (normal(lambda: X[:, 0]), "no free variable"),
    ],
)
def test_densities_that_read_draws_are_refused(define, said):
    with pytest.raises(UnsupportedModelError, match=said):
        read(define)


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTensor's own, that such variables are experimental
def test_named_dimensions_are_refused():
    import pymc.dims as pmd

    def in_rows():
        pm.modelcontext(None).add_coord("row", range(N))
        pm.Normal("y", pmd.Data("x", X[:, 0], dims=("row",)).values * beta(1), 1.0, observed=Y)

    with pytest.raises(UnsupportedModelError, match=r"'y' reads .*named dimensions \(pymc.dims\), \['x'\]"):
        read(in_rows)


def test_an_entry_of_a_parameter_is_no_lag():
    model, data = read(normal(lambda: pm.Normal("b", 0, pm.HalfNormal("s"), shape=(2, 6))[:, GROUP][0]))
    with pytest.raises(GroupsNotFoundError, match=r"put them first: b\[g, 0\]") as error:
        find_groups(model, data)
    assert "lag" not in str(error.value)


@pytest.mark.parametrize("name", ["choices in a long table", "dot with the transpose"])
def test_a_predictor_has_one_entry_for_each_row(name):
    _, data = read(SPLIT[name])
    likelihood = data.likelihood
    eta = row_predictor(likelihood.row_log_likelihood, likelihood.theta, likelihood.batches)
    assert (eta is not None) == (name == "dot with the transpose")


def test_a_sum_of_no_rows_stays_with_the_prior():
    """Also one that reads rows, where these do not split: here a partial likelihood beside the rows of an outcome."""

    def define():
        eta = X @ beta()
        pm.Normal("z", eta, 1.0, observed=Y)
        pm.Potential("few", pt.sum(-(pm.Normal("effects", shape=2 * N) ** 2) * np.arange(2 * N)))
        pm.Potential("ranks", pt.sum(eta - pt.log(pt.cumsum(pt.exp(eta)))))

    _, data = read(define)
    assert [term.name for s in data.terms.sets for term in s.terms] == ["z"]


def test_numbers_beside_a_sum_need_as_many_rows():
    model, data = read(SPLIT["a mean"])
    with model:
        pm.set_data({"y_data": Y[:-1]})
    with pytest.raises(UnsupportedModelError, match="differ in length|shared out among these"):
        data.changed()


@pytest.mark.parametrize("numbers", [np.arange(N)[::-1].copy(), np.arange(N - 1)])
def test_numbers_of_rows_must_stay_those(numbers):
    model, data = read(SPLIT["chosen by both in pm.Data"])
    with model:
        pm.set_data({"i": numbers})
    with pytest.raises(UnsupportedModelError, match="'i' of 'y'.* numbered the rows"):
        data.changed()
