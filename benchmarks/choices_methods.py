"""The methods of ``benchmarks/choices.py``: of a problem and its data each makes draws, and what it says of them.

Libraries beside PyMC are imported by the method that needs them, as their import is a part of the time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from problems import Arrays, Problem, logistic

BATCH, DRAWS, SEED = 500, 1_000, 1
QUIET = {"progressbar": False, "random_seed": SEED}
CORES = min(4, len(os.sched_getaffinity(0)))
CHAINS = {"chains": 4, "cores": CORES, "compute_convergence_checks": False}


class Choice(NamedTuple):
    """A problem, our step for it, the run that errors are measured against, and methods that are left out."""

    problem: Problem
    ours: str
    reference: Callable[[Choice, Arrays], Answer]
    without: tuple[str, ...] = ()


class Answer(NamedTuple):
    """Draws of the variables, what the method says of them, and when they were there, before it judged them."""

    draws: dict[str, np.ndarray]
    says: str
    drawn: float | None = None


def ours(
    choice: Choice, arrays: Arrays, name: str = "", draws: int = 5_000, judged: bool = True, all_rows: bool = False
) -> Answer:
    """Run one of our steps, by default that which suits the problem, and judge it."""
    import pymc_austerity as pma

    with choice.problem.model(arrays) as model:
        step = getattr(pma, name or choice.ours)(progressbar=False, **({"test": pma.Exact()} if all_rows else {}))
        idata = pm.sample(draws, tune=1_000, step=step, quiet=True, **CHAINS, **QUIET)
    drawn = time.time()
    verdict = f"{pma.reliability(idata, model, step=step).verdict}; " if judged else ""
    return Answer(_posterior(idata, model), verdict + convergence(idata["posterior"]), drawn)


def nuts(
    choice: Choice,
    arrays: Arrays,
    sampler: str = "pymc",
    draws: int = DRAWS,
    tune: int = 1_000,
    model: Callable[[Arrays], pm.Model] | None = None,
    **options: Any,
) -> Answer:
    """Run NUTS of PyMC, of nutpie or of NumPyro, four chains, on the model or another form of it."""
    with (model or choice.problem.model)(arrays):
        idata = pm.sample(draws, tune=tune, nuts_sampler=sampler, **options, **CHAINS, **QUIET)
    diverging = int(idata["sample_stats"]["diverging"].sum())
    says = convergence(idata["posterior"]) + (f", {diverging} divergences" if diverging else "")
    return Answer(_posterior(idata, choice.problem.model(arrays)), says)


def mirrored(choice: Choice, arrays: Arrays) -> Answer:
    """Run NUTS of nutpie, and add the mirror image of its draws: the posterior is its own."""
    found = nuts(choice, arrays, "nutpie", 5_000)
    return Answer({name: np.concatenate([x, x[:, ::-1]]) for name, x in found.draws.items()}, "mirrored")


def laplace(choice: Choice, arrays: Arrays, **options: Any) -> Answer:
    """Run the Laplace approximation of pymc-extras, whose default covariance is what BFGS has gathered on its way."""
    import pymc_extras as pmx

    with choice.problem.model(arrays) as model:
        idata = pmx.fit_laplace(draws=4 * DRAWS, include_transformed=False, **options, **QUIET)
    return Answer(_posterior(idata, model), "")


def pathfinder(choice: Choice, arrays: Arrays) -> Answer:
    """Run multi-path Pathfinder of pymc-extras with Pareto-smoothed importance sampling."""
    import pymc_extras as pmx

    with choice.problem.model(arrays) as model:
        idata = pmx.fit_pathfinder(num_draws=DRAWS, parallel=CORES > 1, **QUIET)
    told = idata["pathfinder"]
    says = f"Pareto k {float(told['pareto_k']):.2f}" if "pareto_k" in told else ""
    return Answer(_posterior(idata, model), says)


def importance(choice: Choice, arrays: Arrays) -> Answer:
    """Weight draws of a Laplace approximation, by PyMC's mode and Hessian, with ArviZ's Pareto smoothing."""
    from arviz_stats.base import array_stats
    from pymc.blocking import DictToArrayBijection
    from scipy import stats

    model = choice.problem.model(arrays)
    mode = _mode(model)
    flat = DictToArrayBijection.map(mode)
    covariance = np.linalg.inv(np.asarray(model.compile_d2logp()(mode)))
    law = stats.multivariate_t(flat.data, covariance, df=5, seed=SEED)
    draws = np.atleast_2d(law.rvs(2 * DRAWS))
    points = [DictToArrayBijection.rmap(flat._replace(data=x)) for x in draws]
    log_density = model.compile_logp()
    log_weight, k = array_stats.psislw(law.logpdf(draws) - np.array([float(log_density(at)) for at in points]))
    weight = np.exp(log_weight - np.logaddexp.reduce(log_weight))
    chosen = np.random.default_rng(SEED).choice(len(points), 2 * DRAWS, p=weight)
    with model:
        back = model.compile_fn(model.unobserved_value_vars, inputs=model.value_vars, point_fn=True)
    names = [v.name for v in model.unobserved_value_vars]
    values = [dict(zip(names, back(points[i]), strict=True)) for i in chosen]
    posterior = {v.name: np.array([at[v.name] for at in values]) for v in model.free_RVs}
    return Answer(posterior, f"Pareto k {float(k):.2f}")


def advi(choice: Choice, arrays: Arrays) -> Answer:
    """Run minibatch ADVI of PyMC, 20,000 steps."""

    def rows(*arrays: np.ndarray) -> Any:
        # PyMC makes whole numbers int32, and takes no minibatch that is converted.
        plain = (a.astype(np.int32) if a.dtype.kind == "i" else a for a in arrays)
        return pm.Minibatch(*plain, batch_size=min(BATCH, len(arrays[0])))

    with choice.problem.model(arrays, rows) as model:
        fitted = pm.fit(20_000, method="advi", **QUIET)
        idata = fitted.sample(4 * DRAWS, random_seed=SEED)
    return Answer(_posterior(idata, model), "")


def sgld(choice: Choice, arrays: Arrays) -> Answer:
    """Run SGLD with control variates and a step of a tenth of the posterior's width."""
    import pymc_austerity as pma

    with choice.problem.model(arrays) as model:
        size = min(BATCH, len(arrays[0]))
        step = pma.SGLD(step_size=0.1, batch_size=size, proxy=pma.Taylor(order=1), progressbar=False)
        idata = pm.sample(5_000, tune=1_000, step=step, **CHAINS, **QUIET)
    return Answer(_posterior(idata, model), convergence(idata["posterior"]))


def hmcecs(choice: Choice, arrays: Arrays) -> Answer:
    """Run NumPyro's HMC with energy conserving subsampling and a Taylor proxy: logistic models only."""
    import arviz as az
    import jax
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import HMCECS, MCMC, NUTS

    if choice.problem.model is not logistic:
        raise NotImplementedError("the model is not written in NumPyro")
    jax.config.update("jax_enable_x64", True)
    X, y = (jax.numpy.asarray(a) for a in arrays)

    def model(X: Any, y: Any) -> None:
        beta = numpyro.sample("beta", dist.Normal(0, 1.0).expand([X.shape[1]]).to_event(1))
        with numpyro.plate("N", X.shape[0], subsample_size=min(1_000, len(y) // 10)):
            rows, labels = numpyro.subsample(X, event_dim=1), numpyro.subsample(y, event_dim=0)
            numpyro.sample("y", dist.Bernoulli(logits=rows @ beta), obs=labels)

    proxy = HMCECS.taylor_proxy({"beta": jax.numpy.asarray(_mode(logistic(arrays))["beta"])})
    kernel = HMCECS(NUTS(model), num_blocks=10, proxy=proxy)
    mcmc = MCMC(kernel, num_warmup=500, num_samples=1_500, num_chains=4, chain_method="sequential", progress_bar=False)
    mcmc.run(jax.random.PRNGKey(SEED), X, y)
    beta = np.asarray(mcmc.get_samples(group_by_chain=True)["beta"])
    posterior = az.from_dict({"posterior": {"beta": beta}})["posterior"]
    return Answer({"beta": beta.reshape(-1, beta.shape[-1])}, convergence(posterior))


#: What is run, and the library that it needs.
METHODS: dict[str, tuple[Callable[[Choice, Arrays], Answer], str]] = {
    "ours": (ours, "pymc_austerity"),
    "PenaltyMH": (partial(ours, name="PenaltyMH"), "pymc_austerity"),
    "nutpie": (partial(nuts, sampler="nutpie"), "nutpie"),
    "PyMC NUTS": (nuts, "pymc"),
    "NumPyro NUTS": (partial(nuts, sampler="numpyro"), "numpyro"),
    "NumPyro HMCECS": (hmcecs, "numpyro"),
    "Laplace": (laplace, "pymc_extras"),
    "Laplace, Hessian": (partial(laplace, optimize_method="Newton-CG", use_hessp=True), "pymc_extras"),
    "importance sampling": (importance, "pymc"),
    "Pathfinder": (pathfinder, "pymc_extras"),
    "minibatch ADVI": (advi, "pymc"),
    "SGLD": (sgld, "pymc_austerity"),
}


def convergence(posterior: Any) -> str:
    """Return the largest R-hat and the smallest effective number of draws."""
    import arviz as az

    def of(summary: Callable[..., Any]) -> np.ndarray:
        return np.concatenate([summary(values.to_numpy()).ravel() for values in posterior.data_vars.values()])

    return f"R-hat {of(az.rhat).max():.2f}, ESS {of(az.ess).min():,.0f}"


def _mode(model: Any) -> dict[str, np.ndarray]:
    found = pm.find_MAP(model=model, progressbar=False, include_transformed=True)
    return {v.name: found[v.name] for v in model.value_vars}


def _posterior(idata: Any, model: Any) -> dict[str, np.ndarray]:
    posterior = idata["posterior"]
    found = {}
    for variable in model.free_RVs:
        values = posterior[variable.name].to_numpy()
        found[variable.name] = values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])
    return found
