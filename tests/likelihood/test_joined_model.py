"""Outcomes that are alike but for their data and parameters are read as one, and the log density stays what it is."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from rowwise import by_numpy, evaluated, moved

import pymc_austerity as pma
from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.likelihood import flatten, read_model
from pymc_austerity.likelihood.joined_model import joined_model
from pymc_austerity.steps import step_building

N, K = 12, 9
RNG = np.random.default_rng(5)
X, WHOLE = RNG.normal(size=(N, 3)), RNG.integers(0, 2, N)


def observed(n=N):
    return RNG.normal(size=n)


def model_of(define):
    with by_numpy, pm.Model(coords={"row": range(N)}) as model:
        define()
    return model


def loop(outcome):
    """Outcomes y0, y1, ..., each with a parameter of its own."""
    return lambda: [outcome(k, f"y{k}", f"u{k}") for k in range(K)]


def regressions_of_several_lengths():
    mu = pm.Normal("mu")
    for k in range(K):
        a, b, s = pm.Normal(f"a{k}", mu, 1), pm.Normal(f"b{k}", 0, 1 + k, shape=3), pm.HalfNormal(f"s{k}", 2)
        table, x = RNG.normal(size=(N + k, 3)), observed(N + k)
        pm.Normal(f"y{k}", a + table @ b + mu * x + np.exp(0.1 * k) * x**2, s, observed=observed(N + k))


def entries_of_vectors():
    a, b, c = pm.Normal("a", shape=K), pm.Normal("b", shape=(K, 3)), pm.Normal("c", shape=3)
    for k in range(K):
        pm.Bernoulli(f"y{k}", logit_p=a[k] + pm.math.dot(X, b[k]) + pt.dot(X, c), observed=RNG.permutation(WHOLE))


def zero_inflated_with_dims():
    a = pm.Normal("a", shape=K)
    for k in range(K):
        rate = pm.math.exp(a[k] + pm.Normal(f"b{k}") * X[:, 0])
        pm.ZeroInflatedPoisson(f"y{k}", 0.3, rate, observed=RNG.permutation(WHOLE), dims="row")


def numbers():
    mu = pm.Normal("mu")
    for k in range(K):
        pm.Normal(f"y{k}", pm.Normal(f"u{k}", mu, 1), 0.5 + k, observed=float(k))


def not_centred():
    mu, s = pm.Normal("mu"), pm.HalfNormal("s")
    for k in range(K):
        pm.Normal(f"y{k}", mu + s * pm.Normal(f"z{k}"), 1, observed=observed())


def vectors_a_row():
    mu = pm.Normal("mu", shape=2)
    for k in range(K):
        u = pm.Normal(f"u{k}", mu, 1, shape=2)
        pm.MvNormal(f"y{k}", u, np.eye(2) * (1 + k), observed=RNG.normal(size=(N, 2)))


def a_stack_of_vectors():
    u = pt.stack([pm.Normal(f"u{k}", 0, 1, shape=3) for k in range(K)])
    pm.Normal("y", (X * u[np.arange(N) % K]).sum(1), 1, observed=observed())


effects_within = loop(
    lambda k, y, u: pm.Normal(y, pm.Normal(u, shape=5)[RNG.integers(0, 5, N)], 1, observed=observed())
)
ALIKE = [
    regressions_of_several_lengths, entries_of_vectors, zero_inflated_with_dims, numbers, effects_within,
    vectors_a_row, a_stack_of_vectors,
]  # fmt: skip


@pytest.mark.parametrize(
    "define", [*ALIKE[:4], *(pytest.param(define, marks=pytest.mark.slow) for define in ALIKE[4:])]
)
def test_alike_outcomes_are_read_as_one(define):
    """One outcome, with the rows of all, and at random points the log density that PyMC gives for the user's model."""
    model = model_of(define)
    with by_numpy:
        start = model.initial_point()
        data = read_model(model, model.value_vars, None, None, number_rows=True, join=True)
    total = interpret_log_density(model.value_vars, [model.logp()])
    assert len(data.terms.all) == 1
    assert data.likelihood.n_rows == sum(np.size(model.rvs_to_values[rv].data) for rv in model.observed_RVs) // (
        2 if define is vectors_a_row else 1
    )
    values = evaluated(data.likelihood, [data.likelihood.log_prior, data.likelihood.row_log_likelihood])
    for seed in range(3):
        point = moved(start, seed=seed)
        theta = flatten(point, data.likelihood.blocks)
        prior, rows = values(theta, np.empty(0), *data.fixed, *data.rows.arrays)
        assert prior + rows.sum() == pytest.approx(
            float(total(*(point[v.name] for v in model.value_vars))[0]), rel=1e-8
        )


def rows_of_a_container():
    x = pm.Data("x", X[:, 0])
    loop(lambda k, y, u: pm.Normal(y, pm.Normal(u) * x, 1, observed=observed()))()


def one_that_reads_another():
    us = [pm.Normal(f"u{k}") for k in range(K)]
    loop(lambda k, y, u: pm.Normal(y, us[k] * us[0 if k == 3 else k], 1, observed=observed()))()


def in_containers(k, y, u):
    return pm.Normal(y, pm.Normal(u), 1, observed=pm.Data(f"data of {y}", observed()))


OTHERS = {
    "in containers": loop(in_containers),
    "rows of a container": rows_of_a_container,
    "of different laws": loop(
        lambda k, y, u: pm.Normal(y, (pm.Normal if k % 2 else pm.Cauchy)(u, 0, 1), 1, observed=observed())
    ),
    "one that reads another": one_that_reads_another,
    "means over rows": loop(
        lambda k, y, u: pm.Normal(
            y, pm.Normal(u) * ((x := pt.as_tensor(observed())) - x.mean()), 1, observed=observed()
        )
    ),
}


@pytest.mark.parametrize("define", OTHERS.values(), ids=OTHERS)
def test_others_are_left_as_they_are(define):
    """Containers may get rows of another number, and a mean over the rows of one is none over those of all."""
    assert joined_model(model_of(define)) is None


def test_few_and_those_of_another_density_are_left_as_they_are(monkeypatch):
    """The control: rows given to the next outcome are found by the comparison of log densities."""
    model, repeat = model_of(not_centred), np.repeat
    with monkeypatch.context() as patch:
        patch.setattr(np, "repeat", lambda a, n: np.roll(repeat(a, n), 1))
        assert joined_model(model) is None
    assert joined_model(model) is not None
    monkeypatch.setitem(globals(), "K", 3)
    assert joined_model(model_of(not_centred)) is None


def test_slices_of_a_container_are_refused_for_what_they_are():
    """Not for lengths that differ, of which outcomes in a loop may have as many as there are."""

    def define():
        x, b = pm.Data("x", RNG.normal(size=300)), pm.Normal("b")
        for k, ends in enumerate(np.split(np.arange(300), [60, 110, 180, 240])):
            pm.Normal(f"y{k}", b * x[ends[0] : ends[-1] + 1], 1, observed=observed(len(ends)))

    model = model_of(define)
    with pytest.raises(pma.NotRowWiseError, match="Take them outside the model"):
        read_model(model, model.value_vars, None, None, number_rows=True, join=True)


def test_what_can_be_joined_is():
    """Of two loops one can be joined, the other cannot; that leaves the first."""

    def both(k, y, u):
        return pm.Normal(y, pm.Normal(u), 1, observed=observed()), in_containers(k, f"z{k}", f"v{k}")

    names = [rv.name for rv in joined_model(model_of(loop(both))).model.basic_RVs]
    assert {"u0 to u8", "y0 to y8", "v3", "z3"} <= set(names)
    assert "u3" not in names


def test_the_effects_of_a_loop_are_groups(monkeypatch):
    """Moved as those of one vector; a point has each by its own name."""
    found, model = [], model_of(not_centred)

    def stop(with_groups, *more):
        found.append(with_groups)
        raise InterruptedError

    monkeypatch.setattr(step_building, "_groups", stop)
    with pytest.raises(InterruptedError):
        pma.PenaltyMH(model=model, progressbar=False)
    coordinates, start = found[0].data.coordinates, model.initial_point()
    assert found[0].groups.own.size == K
    assert found[0].data.likelihood.n_rows == N * K
    theta = coordinates.theta(start) + np.arange(1.0, K + 3)
    point = coordinates.point(start, theta)
    assert {name: np.shape(value) for name, value in point.items()} == dict.fromkeys(start, ())
    assert not any(point[name] == start[name] for name in start)
    np.testing.assert_allclose(coordinates.theta(point), theta)
