"""Effects in rows with a kink, as those of a quantile regression, are moved as groups: it is rounded for expansions."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from evidence import MAX_Z
from grouped import EFFECT, by_group, largest_z, moments, search_of
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.groups import group_assembly, read_groups
from pymc_austerity.groups.group_mode import GroupModeError
from pymc_austerity.groups.group_model import GroupModel
from pymc_austerity.groups.group_preparation import _find_centre
from pymc_austerity.groups.group_search import GroupSearch
from pymc_austerity.proxy import with_kinks_rounded

RNG = np.random.default_rng(47)
GROUPS, SCALE = 20, 0.7
INDEX = np.repeat(np.arange(GROUPS), 15)
Y = RNG.normal(-0.2, 0.8, GROUPS)[INDEX] + RNG.laplace(0, SCALE, INDEX.size)


def model_of(rows):
    with pm.Model() as model:
        mean, log_scale = pm.Normal("mean", 0, 1), pm.Normal("log_scale", -0.3, 0.7)
        rows(pm.Normal("effect", mean, pm.math.exp(log_scale), shape=GROUPS)[INDEX])
    return model


def laplace(effect):
    pm.Laplace("y", effect, SCALE, observed=Y)


def quantile(effect):
    pm.AsymmetricLaplace("y", mu=effect, b=1 / pm.HalfNormal("s", 1), q=0.9, observed=Y)


def written_loss(effect):
    s, error = pm.HalfNormal("s", 1), pm.Data("y", Y) - effect
    pm.Potential("loss", -error * (0.9 - (error < 0)) / s - pt.log(s))


def loss_by_cases(effect):
    error = pm.Data("y", Y) - effect
    pm.Potential("loss", -pt.switch(error >= 0, 0.9 * error, -0.1 * error))


@pytest.mark.parametrize("rows", [laplace, quantile, written_loss, loss_by_cases])
def test_a_centre_is_found_where_kinks_are_rounded(rows):
    """Without that there is none, as nothing tells how far a group may go: the planted mistake."""
    model = model_of(rows)
    with pytest.raises(GroupModeError), np.errstate(invalid="ignore"):
        _find_centre(search_of(model))
    read = read_groups(model)
    data = read.data
    rounded = with_kinks_rounded(data.likelihood, data.rows, data.fixed, data.theta0, group_assembly._OF_KINKS)
    assert rounded.rounded is not None
    centre, _, _ = _find_centre(GroupSearch.of(data, GroupModel(rounded, read.groups, True, None)))
    assert np.isfinite(centre.factor).all()


@pytest.mark.slow
def test_effects_in_rows_with_kinks_have_the_law_of_quadrature():
    """Rows of another scale have another law, which is seen."""
    model = model_of(laplace)
    step = pma.PenaltyMH(model=model, rng=1, progressbar=False)
    posterior = sampled(model, step, 4_000, tune=600).posterior
    draws = [posterior["mean"].to_numpy(), posterior["log_scale"].to_numpy()]
    draws += list(np.moveaxis(posterior["effect"].to_numpy(), -1, 0))
    for scale, right in ((SCALE, True), (1.3 * SCALE, False)):
        law = moments(by_group(-np.abs(Y[:, None] - EFFECT) / scale, INDEX, GROUPS))
        assert (largest_z(draws, law) < MAX_Z) == right
