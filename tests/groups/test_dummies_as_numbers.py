"""Effects that rows read by a matrix of dummies, or by a table of numbers, are taken as those of groups."""

import numpy as np
import pymc as pm
import pytensor.sparse as ps
import pytest
import scipy.sparse as sp
from evidence import MAX_Z
from grouped import largest_z, law_of_normal_rows, sampled

import pymc_austerity as pma
from pymc_austerity.groups import GroupsNotFoundError, read_groups

G, N = 14, 300
RNG = np.random.default_rng(41)
#: Both members of some rows are the same.
MEMBERS = RNG.integers(0, G, (N, 2))
GROUP, X = MEMBERS[:, 0], RNG.normal(size=N)
WEIGHTS = RNG.dirichlet([2, 2], N)
DUMMIES = np.eye(G)[GROUP]
SHARES = WEIGHTS[:, :1] * DUMMIES + WEIGHTS[:, 1:] * np.eye(G)[MEMBERS[:, 1]]
Y = SHARES @ RNG.normal(size=G) + RNG.normal(size=N)
SCALES = np.linspace(-3, 2, 60)

READ = {
    "scaled after": lambda u, s: s * (DUMMIES @ u),
    "slopes": lambda u, s: (DUMMIES * X[:, None]) @ (s * u),
    "dummies on the second axis": lambda u, s: pm.math.dot(s * u, DUMMIES.T),
    "sparse, on the second axis": lambda u, s: ps.dot(s * u, sp.csr_matrix(DUMMIES.T)),
    "sparse": lambda u, s: ps.structured_dot(sp.csr_matrix(DUMMIES), (s * u)[:, None])[:, 0],
    "shares": lambda u, s: SHARES @ (s * u),
    "mean": lambda u, s: s * u[MEMBERS].mean(axis=1),
    "weights": lambda u, s: s * (WEIGHTS * u[MEMBERS]).sum(axis=1),
}


def model_of(read):
    with pm.Model() as model:
        scale = pm.math.exp(pm.Normal("log_sd", -0.5, 1))
        pm.Normal("y", read(pm.Normal("u", shape=G), scale), 1, observed=Y)
    return model


@pytest.mark.parametrize("name", READ)
def test_matrices_are_read_as_numbers_of_groups(name):
    """The change of variables is compared with the log density where the model is read."""
    found = read_groups(model_of(READ[name])).groups
    assert found.names == ("u",)
    assert len(found.own) == G


@pytest.mark.parametrize(
    "matrix",
    [np.column_stack([np.ones(N), DUMMIES]), RNG.normal(size=(N, 3)), np.eye(3)[GROUP % 3][:, 1:]],
    ids=["intercept", "covariates", "against a reference"],
)
def test_other_matrices_are_columns(matrix):
    with pm.Model() as model:
        coefficients = pm.Normal("b", 0, pm.HalfNormal("s"), shape=matrix.shape[1])
        pm.Normal("y", matrix @ coefficients, 1, observed=Y)
    assert read_groups(model).groups.size.tolist() == [matrix.shape[1]]


@pytest.mark.parametrize(
    ("read", "remedy"),
    [(lambda u, s: pm.Data("Z", DUMMIES) @ (s * u), "argmax"), (lambda u, s: u[pm.Data("M", MEMBERS)].sum(-1), "M_0")],
)
def test_data_that_may_be_replaced_are_named_with_what_to_write(read, remedy):
    with pytest.raises(GroupsNotFoundError, match=remedy):
        read_groups(model_of(read))


def law(design):
    """Mean and sd of the log scale and of two effects."""

    def prior(a):
        return -((a + 0.5) ** 2) / 2, np.full(G, np.exp(-2 * a))

    return law_of_normal_rows(design, Y, [SCALES], prior, np.eye(G)[:2])


@pytest.mark.slow
def test_draws_of_members_have_the_law_of_linear_algebra():
    """The weights of other rows do not give it."""
    model = model_of(READ["shares"])
    posterior = sampled(model, pma.GroupMH(model=model, rng=1, progressbar=False), 3_000).posterior
    u = (posterior["u"] * np.exp(posterior["log_sd"])).transpose("chain", "draw", ...).to_numpy()
    draws = [posterior["log_sd"].to_numpy(), u[:, :, 0], u[:, :, 1]]
    assert largest_z(draws, law(SHARES)) < MAX_Z
    assert largest_z(draws, law(SHARES[::-1])) > MAX_Z
