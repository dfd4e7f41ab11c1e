"""Models of every kind that a user may bring: those that split into rows, and those that must be refused."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr

N = 60
GROUPS = 5

_rng = np.random.default_rng(20140621)
X = _rng.normal(size=(N, 3))
GROUP = _rng.integers(0, GROUPS, N)
BINARY = _rng.integers(0, 2, N)
REAL = _rng.normal(size=N)
POSITIVE = np.exp(REAL)
COUNT = _rng.poisson(2.0, N)
EXPOSURE = _rng.uniform(0.5, 2, N)
HIGH = X[:, 0] > 0
LIMIT = np.abs(REAL) + _rng.integers(0, 2, N)


@dataclass(frozen=True)
class Case:
    """A model to build, and words that the error must contain where it is refused."""

    name: str
    define: Callable[[], None]
    coords: dict | None = None
    words: tuple[str, ...] = ()

    def build(self):
        with pm.Model(coords=self.coords) as model:
            self.define()
        return model


SPLIT: list[Case] = []
REFUSED: list[Case] = []


def splits(name, coords=None):
    return lambda define: SPLIT.append(Case(name, define, coords)) or define


def refused(name, *words):
    return lambda define: REFUSED.append(Case(name, define, words=words)) or define


def slopes(size=3, sd=0.3):
    return pm.Normal("beta", 0, sd, shape=size)


def normal(mu, sd=1.0):
    pm.Normal("y", mu, sd, observed=REAL)


def smooth(dimensions):
    return pm.gp.cov.ExpQuad(dimensions, ls=pm.HalfNormal("length"))


@splits("linear, pandas")
def _():
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=REAL)
    pm.Normal("y", pm.math.dot(pm.Data("X", frame[["a", "b", "c"]]), slopes()), 1.0, observed=frame["y"])


@splits("linear, xarray, dims and coords", coords={"row": np.arange(N), "column": list("abc")})
def _():
    table = xr.DataArray(X, dims=("row", "column"))
    beta = pm.Normal("beta", 0, 1, dims="column")
    data = pm.Data("X", table.values, dims=("row", "column"))
    pm.Normal("y", pm.Deterministic("mu", data @ beta, dims="row"), 1.0, observed=REAL, dims="row")


@splits("multinomial")
def _():
    p = pm.math.softmax(X @ pm.Normal("beta", 0, 1, shape=(3, 4)), axis=-1)
    pm.Multinomial("y", n=6, p=p, observed=np.random.default_rng(0).multinomial(6, np.ones(4) / 4, size=N))


@splits("ordered logistic")
def _():
    ordered = pm.distributions.transforms.ordered
    cut = pm.Normal("cut", 0, 1, shape=GROUPS - 1, transform=ordered, initval=np.arange(GROUPS - 1.0))
    pm.OrderedLogistic("y", eta=X @ slopes(), cutpoints=cut, observed=GROUP)


@splits("multivariate normal regression, LKJ")
def _():
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1.0))
    pm.MvNormal("y", mu=X @ pm.Normal("beta", 0, 1, shape=(3, 2)), chol=chol, observed=X[:, :2])


@splits("mixture of regressions")
def _():
    w, mu = pm.Dirichlet("w", np.ones(2)), X @ slopes()
    parts = [pm.Normal.dist(mu, 1.0), pm.StudentT.dist(nu=4, mu=mu, sigma=2.0)]
    pm.Mixture("y", w=w, comp_dists=parts, observed=REAL)


@splits("varying intercepts, not centred, dims", coords={"group": list("abcde"), "row": np.arange(N)})
def _():
    mean, sd, z = pm.Normal("mean"), pm.HalfNormal("sd"), pm.Normal("z", 0, 1, dims="group")
    intercept = pm.Deterministic("intercept", mean + sd * z, dims="group")
    index = pm.Data("index", GROUP, dims="row")
    pm.Normal("y", intercept[index], 1.0, observed=REAL, dims="row")


@splits("small neural network")
def _():
    hidden = pt.tanh(pt.dot(X, pm.Normal("W", 0, 1, shape=(3, 4))) + pm.Normal("b", 0, 1, shape=4))
    pm.Bernoulli("y", logit_p=pt.dot(hidden, pm.Normal("v", 0, 1, shape=4)), observed=BINARY)


@splits("two observed variables on the same rows")
def _():
    beta = slopes()
    normal(X @ beta, pm.HalfNormal("sigma"))
    pm.Bernoulli("z", logit_p=X @ beta, observed=BINARY)


@splits("one observed variable as the mean of another")
def _():
    beta = pm.Normal("beta")
    first = pm.Normal("first", beta, 1.0, observed=REAL)
    pm.Normal("second", first * beta, 1.0, observed=X[:, 0])


@splits("row-wise potential beside an observed variable, and a scalar one")
def _():
    beta = slopes()
    normal(X @ beta)
    pm.Potential("weight", -pt.abs(X[:, 0] * beta[0]))
    pm.Potential("ridge", -(beta[1] ** 2))


@splits("a prior of as many entries as there are rows, as a potential")
def _():
    u = pm.Normal("u", shape=N)
    pm.Potential("ridge", -(u**2))
    normal(u[np.arange(N) % 7])


@splits("a small observed variable in the prior")
def _():
    beta = slopes()
    normal(X @ beta)
    pm.Normal("calibration", beta[0], 1.0, observed=np.array([1.0, 2.0]))


@splits("rows of a mask raised by a vector of a row's own length")
def _():
    mu = pt.inc_subtensor((X @ pm.Normal("beta", 0, 1, shape=(3, 2)))[HIGH], pm.Normal("b", shape=2))
    pm.Normal("y", mu, 1.0, observed=X[:, :2])


@splits("rows by their numbers, and a stretch of rows, set to parameters")
def _():
    mu = pt.set_subtensor((X @ slopes())[np.array([3, 50, 7])], pm.Normal("b"))
    normal(pt.inc_subtensor(mu[40:], pm.Normal("late")))


@splits("columns set one by one")
def _():
    beta = slopes()
    columns = pt.set_subtensor(pt.zeros((N, 2))[:, 0], X @ beta)
    pm.Normal("y", pt.set_subtensor(columns[:, 1], beta[0]), 1.0, observed=X[:, :2])


@splits("CustomDist over pm.Data that it was not given")
def _():
    data = pm.Data("X", X)
    pm.CustomDist("y", slopes(), logp=lambda value, beta: -pt.abs(value - pt.dot(data, beta)), observed=REAL)


@splits("a scan that maps rows")
def _():
    mu = pytensor.map(lambda x, g, beta: pt.dot(x, beta) * g, [pt.as_tensor(X), pt.as_tensor(EXPOSURE)], [slopes()])
    normal(mu[0] if isinstance(mu, tuple) else mu)


@refused("a label of each row, summed", "'y'", "'outlier' has 60 entries", "pm.Mixture")
def _():
    sd = pt.switch(pm.Bernoulli("outlier", 0.1, shape=N), 10.0, 1.0)
    pm.Potential("y", pm.logp(pm.Normal.dist(X @ slopes(), sd), REAL).sum())


@refused("rows drawn by the model", "'y'", "pm.Minibatch", "draws its own batches")
def _():
    covariates, outcome = pm.Minibatch(X, REAL, batch_size=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyMC's word on a total_size that is missing
        pm.Normal("y", covariates @ slopes(), 1.0, observed=outcome)


@refused("a column mean in the graph", "'y'", "statistic over rows", "outside the model")
def _():
    data = pm.Data("X", X)
    normal((data - data.mean(0)) @ slopes())


@refused("the number of rows as a number", "'y'", "number of rows enters")
def _():
    data = pm.Data("X", X)
    normal(data @ slopes() * data.shape[0])


@refused("a mask made of all rows", "'y'", "statistic over rows")
def _():
    eta = X @ slopes()
    normal(pt.set_subtensor(eta[eta > eta.mean()], pm.Normal("b")))


@refused("a CustomDist that centres data that it was not given", "'y'", "statistic over rows")
def _():
    def logp(value, beta):
        return -pt.abs(value - pt.dot(pt.as_tensor(X) - pt.as_tensor(X).mean(axis=0), beta))

    pm.CustomDist("y", slopes(), logp=logp, observed=REAL)


@refused("a scan that carries a state", "'y'", "carries a state")
def _():
    states = pytensor.scan(
        lambda x, state, rho: rho * state + x,
        [pt.as_tensor(REAL)],
        pt.constant(0.0, dtype="float64"),
        [pm.Normal("rho")],
    )
    normal(states[0] if isinstance(states, tuple) else states)


@refused("a scan whose steps read all rows", "'y'", "statistic over rows")
def _():
    data = pm.Data("x", REAL)
    mu = pytensor.map(lambda x, every, b: b * (x - every.mean()), [data], [data, pm.Normal("b")])
    normal(mu[0] if isinstance(mu, tuple) else mu)


SPLIT += [
    Case("linear, constants", lambda: normal(X @ slopes(), pm.HalfNormal("sigma"))),
    Case("no covariates", lambda: normal(pm.Normal("mu"), pm.HalfNormal("sigma"))),
    Case("logistic, logits", lambda: pm.Bernoulli("y", logit_p=X @ slopes(), observed=BINARY)),
    Case("negative binomial",
         lambda: pm.NegativeBinomial("y", mu=pt.exp(X @ slopes()), alpha=pm.Exponential("alpha", 1), observed=COUNT)),
    Case("Student-t",
         lambda: pm.StudentT("y", nu=pm.Gamma("nu", 2, 0.1), mu=X @ slopes(), sigma=pm.HalfNormal("sigma"),
            observed=REAL)),
    Case("softmax",
         lambda: pm.Categorical("y", p=pm.math.softmax(X @ pm.Normal("beta", 0, 1, shape=(3, 4)), axis=-1),
                                observed=GROUP % 4)),
    Case("censored, a limit per row",
         lambda: pm.Censored("y", pm.Exponential.dist(pt.exp(X @ slopes())), lower=None, upper=LIMIT,
                             observed=np.abs(REAL))),
    Case("truncated", lambda: pm.Truncated("y", pm.Normal.dist(X @ slopes(), 1.0), lower=-4, upper=4, observed=REAL)),
    Case("zero-inflated Poisson",
         lambda: pm.ZeroInflatedPoisson("y", psi=pm.Beta("psi", 1, 1), mu=pt.exp(X @ slopes()), observed=COUNT)),
    Case("CustomDist with dist",
         lambda: pm.CustomDist("y", X @ slopes(), dist=lambda mu, size: pt.exp(pm.Normal.dist(mu, 1.0, size=size)),
                               observed=POSITIVE)),
    Case("a discrete switch", lambda: normal(pt.switch(pm.Bernoulli("on", 0.5), X @ slopes(), 0.0))),
    Case("Hilbert-space Gaussian process in two dimensions",
         lambda: normal(pm.gp.HSGP(m=[4, 3], c=1.5, cov_func=smooth(2)).prior("f", X=X[:, :2]))),
    Case("rows of a mask set among zeros, the mask as pm.Data",
         lambda: normal(pt.set_subtensor(pt.zeros(N)[pm.Data("mask", HIGH)], pm.Normal("b")))),
    Case("CustomDist with dist over data that it was not given",
         lambda: pm.CustomDist("y", slopes(), observed=REAL,
                               dist=lambda beta, size: pm.Normal.dist(pt.dot(X, beta), 1.0, size=size))),
    Case("bins by searchsorted",
         lambda: normal(pm.Normal("level", shape=7)[pt.searchsorted(np.linspace(-1, 1, 6), pm.Data("x", X[:, 0]))])),
    Case("total_size of as many rows as there are",
         lambda: pm.Normal("y", X @ slopes(), 1.0, observed=REAL, total_size=N)),
]  # fmt: skip
REFUSED += [
    Case("random walk", words=("'y'", "over all rows", "PartialPosteriorPaths"),
         define=lambda: pm.GaussianRandomWalk("y", sigma=pm.HalfNormal("sigma"), init_dist=pm.Normal.dist(0, 1),
                                              observed=REAL)),
    Case("latent random walk", words=("'y'", "'path' has 60 entries that belong to single rows", "NUTS"),
         define=lambda: normal(pm.GaussianRandomWalk("path", sigma=1.0, init_dist=pm.Normal.dist(0, 1), shape=N))),
    Case("an effect of each row", lambda: normal(X @ slopes() + pm.Normal("eps", shape=N)),
         words=("'y'", "'eps' has 60 entries that belong to single rows", "pm.Mixture")),
    Case("effects of each row, reshaped", lambda: normal(pm.Normal("u", shape=2 * N).reshape((N, 2))[:, 0]),
         words=("'y'", "'u' has 120 entries")),
    Case("effects of each row, filled in", lambda: normal(pt.alloc(pm.Normal("u", shape=N), N)),
         words=("'y'", "'u' has 60 entries")),
    Case("effects of the first rows", lambda: normal(pm.Normal("u", shape=N + 3)[:N]),
         words=("'y'", "'u' has 63 entries")),
    Case("marginal Gaussian process", words=("'y'", "over all rows", "PartialPosteriorPaths"),
         define=lambda: pm.gp.Marginal(cov_func=smooth(3)).marginal_likelihood("y", X=X, y=REAL, sigma=1.0)),
    Case("latent Gaussian process", lambda: normal(pm.gp.Latent(cov_func=smooth(3)).prior("f", X=X)),
         words=("'y'", "rows", "PartialPosteriorPaths")),
    Case("a softmax over rows", lambda: normal(pt.special.softmax(pt.as_tensor(REAL) * pm.Normal("b"))),
         words=("'y'", "normalised against each other")),
    Case("an op that is not known", lambda: normal(pt.unique(pt.as_tensor(REAL) * pm.Normal("b"))),
         words=("'y'", "not known", "Unique")),
    Case("a CustomDist that sums", words=("'y'", "summed over the rows"),
         define=lambda: pm.CustomDist("y", X @ slopes(), logp=lambda y, mu: -pt.abs(y - mu).sum(), observed=REAL)),
    Case("nothing observed", lambda: pm.Normal("mu"), words=("no observed variable", "NUTS")),
    Case("one observation", lambda: pm.Binomial("y", 100, pm.Beta("p", 1, 1), observed=30),
         words=("no row axis", "NUTS")),
    Case("a value for each row of a mask", words=("'y'", "a value of its own", "pt.switch"),
         define=lambda: normal(pt.set_subtensor((X @ slopes())[HIGH], pm.Normal("b") * X[HIGH, 1]))),
    Case("one entry a row, some of them set", lambda: normal(pt.set_subtensor(pm.Normal("u", shape=N)[HIGH], 0.0)),
         words=("'y'", "'u' has 60 entries")),
    Case("rows raised more than once", words=("'y'", "rows are set or raised"),
         define=lambda: normal(pt.inc_subtensor((X @ slopes())[np.array([3, 3])], pm.Normal("b")))),
    Case("rows in another order set by a mask",
         lambda: normal(pt.set_subtensor((X @ slopes())[::-1][HIGH], pm.Normal("b"))), words=("'y'", "lag")),
    Case("a CustomDist that is one draw of all rows", words=("'y'", "X @ beta", "signature"),
         define=lambda: pm.CustomDist("y", slopes(), X, signature="(k),(n,k)->(n)", observed=REAL,
                                      logp=lambda value, beta, data: -pt.abs(value - pt.dot(data, beta)))),
    Case("total_size of other rows than there are", words=("'y'", "total_size", "all rows"),
         define=lambda: pm.Normal("y", X @ slopes(), 1.0, observed=REAL, total_size=N - 1)),
    Case("ranks among the rows by searchsorted", words=("'y'", "ranked among"),
         define=lambda: normal(pm.Normal("slope") * pt.searchsorted(np.sort(REAL), pm.Data("x", X[:, 0])))),
    Case("a reshape that mixes rows", words=("'y'", "reshape"),
         define=lambda: normal((X[:, :2] @ pm.Normal("beta", shape=2))[:, None].reshape((2, N // 2)).T.reshape((N,)))),
    Case("parameters repeated for the rows", lambda: normal(pt.repeat(pm.Normal("u", shape=2), N // 2)),
         words=("'y'", "shape (60,) computed from 'u'", "is written u[g]")),
]  # fmt: skip
