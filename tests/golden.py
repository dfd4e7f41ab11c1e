"""Draws and statistics of every combination that the package allows, kept so that no change goes unseen.

To renew the stored numbers after a change that is meant to move draws: ``make golden``, once for each version of PyMC.
By hand, with one BLAS thread::

    python tests/golden.py check                     what the continuous-integration run looks at, with a tolerance
    python tests/golden.py check --all               every combination
    python tests/golden.py renew [--all]             write the stored numbers

Patterns after the command (``"* Langevin *"``) keep those combinations whose names match.

The stored numbers in ``tests/golden/`` are compared with a tolerance, because another processor rounds differently, and
so does compiled code that was inlined into other code or came from the disk.
Nothing but the public names of the package is used here: its files may move.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pymc_austerity as pma

MAJOR = int(pm.__version__.split(".")[0])
STORED = Path(__file__).with_suffix("") / f"pymc{MAJOR}.json"

#: Long enough for `AdaptiveMetropolis` to use its covariance and for `SurrogateHMC` to settle on a path.
TUNE, DRAWS, SEED = 200, 25, 20140621
#: Runs in one process: compiled code is never freed, a tenth of a gigabyte each.
CHUNK = 25
#: Other processors round differently, and log ratios near zero are differences of large sums.
RTOL, ATOL = 1e-6, 1e-9
#: Times as much may groups differ: their centre is searched with numerical derivatives, which enlarge rounding.
OF_GROUPS = 1e3
#: Statistics that are seconds, the number of rows there are, digests of model and data, and the text in which a tuned
#: proposal is spelled out, which shows in the draws.
OF_TIME = ("perf_counter_start", "perf_counter_diff", "process_time_diff", "setup_seconds")
NOT_COMPARED = (*OF_TIME, "total_rows", "model_digest", "data_digest", "method", "tuned")


# Models

_rng = np.random.default_rng(7)
X = _rng.normal(size=(200, 3))
LABELS = (_rng.random(200) < 1 / (1 + np.exp(-X[:, :2] @ [1.0, -0.5]))).astype(int)
RESPONSE = X @ [0.4, 0.0, -0.2] + _rng.normal(size=200)
SIGNALS = _rng.laplace(size=(150, 2)) @ np.array([[0.8, 0.6], [-0.6, 0.8]])
COUNTS = _rng.poisson(3.0, 150)
PAIRS = np.array(list(combinations(range(8), 2)))
TABLES = _rng.normal(0, 0.4, size=(len(PAIRS), 2, 2))
GROUP, OTHER = _rng.integers(0, 12, 200), _rng.integers(0, 33, 200)
EVENTS = _rng.poisson(np.exp(0.3 + 0.5 * _rng.normal(size=12)[GROUP]))


def modelled(define: Callable[[], None]) -> Callable[[], pm.Model]:
    """Let a function that adds variables build a model of them."""

    def build():
        with pm.Model() as model:
            define()
        return model

    return build


@modelled
def logistic():
    beta = pm.Normal("beta", 0, 2, shape=2)
    pm.Bernoulli("y", logit_p=pm.math.dot(X[:, :2], beta), observed=LABELS)


@modelled
def normal_mean():
    pm.Normal("y", pm.Normal("mu", 0, 1), 1, observed=RESPONSE)


@modelled
def replaceable():
    table, labels = pm.Data("table", X[:, :2]), pm.Data("labels", LABELS)
    pm.Bernoulli("y", logit_p=pm.math.dot(table, pm.Normal("beta", 0, 2, shape=2)), observed=labels)


@modelled
def with_scale():
    mu, sigma = pm.Normal("mu", 0, 1), pm.HalfNormal("sigma", 1)
    pm.StudentT("y", nu=5, mu=mu, sigma=sigma, observed=RESPONSE)


@modelled
def orthonormal():
    W = pma.UniformStiefel("W", shape=(2, 2))
    pm.Potential("y", -pt.log(pt.cosh(pm.math.dot(SIGNALS, W.T))).sum(axis=1))


@modelled
def selection():
    gamma, beta = pm.Bernoulli("gamma", 0.4, shape=3), pm.Normal("beta", 0, 0.7, shape=3)
    pm.Normal("y", pm.math.dot(X, gamma * beta), 1, observed=RESPONSE)


@modelled
def selection_logistic():
    gamma, beta = pm.Bernoulli("gamma", 0.4, shape=3), pm.Normal("beta", 0, 0.7, shape=3)
    labels = (RESPONSE > 0).astype(int)
    pm.Bernoulli("y", logit_p=pm.math.dot(X, gamma * beta), observed=labels)


@modelled
def discrete():
    pm.Poisson("y", 0.5 + pm.DiscreteUniform("k", 0, 9), observed=COUNTS)


@modelled
def binary_field():
    x = pm.Bernoulli("x", 0.5, shape=8)
    table, pairs = pm.Data("factors", TABLES), pm.Data("pairs", PAIRS)
    pm.Potential("log_psi", table[pt.arange(table.shape[0]), x[pairs[:, 0]], x[pairs[:, 1]]])


@modelled
def categorical_field():
    x = pm.Categorical("x", np.ones(3) / 3, shape=8)
    pairs = pm.Data("pairs", PAIRS)
    pm.Potential("log_psi", 0.4 * pt.eq(x[pairs[:, 0]], x[pairs[:, 1]]))


@modelled
def grouped_logistic():
    slope, scale = pm.Normal("slope", 0, 2), pm.HalfNormal("scale", 1)
    effect = pm.Normal("effect", pm.Normal("mean", 0, 1), scale, shape=12)
    pm.Bernoulli("y", logit_p=slope * X[:, 0] + effect[GROUP], observed=LABELS)


@modelled
def grouped_not_centred():
    mean, scale = pm.Normal("mean", 0, 1), pm.HalfNormal("scale", 1)
    z = pm.Normal("z", 0, 1, shape=(12, 2))
    rate = mean + scale * z[GROUP, 0] + 0.3 * z[GROUP, 1] * X[:, 0]
    pm.Poisson("y", pm.math.exp(rate), observed=EVENTS)


@modelled
def crossed():
    intercept, scales = pm.Normal("intercept", 0, 1), pm.HalfNormal("scales", 1, shape=2)
    first, second = pm.Normal("first", 0, scales[0], shape=33), pm.ZeroSumNormal("second", scales[1], shape=12)
    error = pm.HalfNormal("error", 1)
    pm.Normal("y", intercept + first[OTHER] + second[GROUP], error, observed=RESPONSE)


# The parts


def largest_change(theta, theta_new):
    """More than any row of `logistic` changes, and any remainder near the mode."""
    return 3 * np.sqrt((X[:, :2] ** 2).sum(axis=1).max()) * pt.sqrt(((theta_new - theta) ** 2).sum())


#: Small batches: with 200 rows a test has several looks only then.
TESTS: dict[str, Callable[..., Any]] = {
    "ApproxMH": partial(pma.ApproxMH, batch_size=40, epsilon=0.05),
    "MHSubLhd": partial(pma.MHSubLhd, batch_size=20, delta=0.1),
    "MHSubLhd(scan)": partial(pma.MHSubLhd, batch_size=20, delta=0.1, bound="scan"),
    "MinibatchBarker": partial(pma.MinibatchBarker, batch_size=30),
    "PenaltyMH": partial(pma.PenaltyMH, batch_size=30),
    "MinibatchMH": partial(pma.MinibatchMH, batch_size=50),
    "ExactMH": pma.ExactMH,
    "ExactMH(ExactBarker)": partial(pma.ExactMH, test=pma.ExactBarker()),
}
TEST_VARIANTS: dict[str, Callable[..., Any]] = {
    "ApproxMH(alpha)": partial(pma.ApproxMH, batch_size=40, epsilon=0.05, alpha=0.9),
    "ApproxMH(auto)": partial(pma.ApproxMH, batch_size=40, epsilon="auto", tolerance=0.02),
    "MHSubLhd(function)": partial(pma.MHSubLhd, batch_size=20, delta=0.1, bound=largest_change),
    "MinibatchBarker(paper)": partial(pma.MinibatchBarker, batch_size=30, skewness=False),
}
ALL_TESTS = TESTS | TEST_VARIANTS
PROPOSALS: dict[str, Any] = {
    "default": None,
    "RandomWalk": pma.RandomWalk(scale=0.2),
    "AdaptiveMetropolis": pma.AdaptiveMetropolis(),
    "Langevin": pma.Langevin(batch_size=50),
    "SurrogateHMC": pma.SurrogateHMC(),
    "CrankNicolson": pma.CrankNicolson(),
}
PROPOSAL_VARIANTS: dict[str, Any] = {
    "RandomWalk(cov)": pma.RandomWalk(cov=[[0.04, 0.01], [0.01, 0.04]]),
    "SurrogateHMC(adapt)": pma.SurrogateHMC(transitions="adapt"),
    "CrankNicolson(df)": pma.CrankNicolson(degrees_of_freedom=10),
}
OTHER_PROPOSALS: dict[str, Any] = {
    "StiefelWalk": pma.StiefelWalk(),
    "ReversibleJump": pma.ReversibleJump("beta", "gamma", transitions=20),
}
ALL_PROPOSALS = PROPOSALS | PROPOSAL_VARIANTS | OTHER_PROPOSALS
PROXIES: dict[str, Any] = {
    "none": None,
    "auto": "auto",
    "Taylor(1)": pma.Taylor(order=1),
    "Taylor(2)": pma.Taylor(order=2),
}
ROWS: dict[str, Any] = {"default": None, "Uniform": pma.Uniform(), "Weighted": pma.Weighted()}

ON_SURROGATE = ("SurrogateHMC", "SurrogateHMC(adapt)", "CrankNicolson", "CrankNicolson(df)")
TAKE_WEIGHTS = ("ApproxMH", "MinibatchBarker", "PenaltyMH")


def is_allowed(test: str, proposal: str, proxy: str, rows: str) -> bool:
    """Whether the package should build such a step, said without asking it."""
    if rows == "Weighted" and not (proxy != "none" and test.startswith(TAKE_WEIGHTS)):
        return False
    if proposal == "StiefelWalk":
        # Its model has no linear predictor, and the function is a bound for another model.
        return not proxy.startswith("Taylor") and rows != "Weighted" and test not in ("MHSubLhd",)
    if proposal == "ReversibleJump":
        # Which variables are in multiplies their effects, so there is no linear predictor for the bound that is found.
        return test != "MHSubLhd" and not (test == "MHSubLhd(function)" and proxy.startswith("Taylor"))
    if proxy == "none" and proposal in ON_SURROGATE:
        return False
    # The remainder of a first-order expansion has no bound that is found from the graph.
    return not (test == "MHSubLhd" and proxy == "Taylor(1)")


# Combinations


@dataclass(frozen=True)
class Combination:
    """One run: how its model and step, or steps, are made, and whether the step should be built.

    `then` takes the result of ``pm.sample``, the model and the step, and returns more to remember, by name.
    """

    name: str
    model: Callable[[], pm.Model]
    step: Callable[[pm.Model], Any]
    allowed: bool = True
    then: Callable[..., Mapping[str, Any]] | None = None
    sample: Mapping[str, Any] = field(default_factory=dict)

    def run(self) -> dict[str, np.ndarray]:
        """Build the step, sample with it, and return what is remembered."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = self.model()
            try:
                with model:
                    step = self.step(model)
            except Exception as refusal:
                return {"refused": np.array(type(refusal).__name__)}
            result = sample(model, step, **self.sample)
            found = arrays_of(result)
            if self.then is not None:
                found |= {name: np.asarray(value) for name, value in self.then(result, model, step).items()}
        return found


def sample(model, step, seed=SEED, **settings):
    """Sample two short chains in this process."""
    settings = {"tune": TUNE, "draws": DRAWS, "chains": 2, "cores": 1, "random_seed": seed, **settings}
    with model:
        return pm.sample(step=step, progressbar=False, compute_convergence_checks=False, **settings)


def arrays_of(result, prefix="") -> dict[str, np.ndarray]:
    """Return all draws and all statistics that are no seconds."""
    found = {}
    for group in ("posterior", "sample_stats"):
        for name, values in result[group].data_vars.items():
            if name not in NOT_COMPARED:
                found[f"{prefix}{group}/{name}"] = values.to_numpy()
    return found


def _step_of(test, proposal, proxy, rows, model, **options):
    options |= {"proxy": PROXIES[proxy]}
    if ALL_PROPOSALS[proposal] is not None:
        options["proposal"] = ALL_PROPOSALS[proposal]
    if ROWS[rows] is not None:
        options["rows"] = ROWS[rows]
    return ALL_TESTS[test](**options)


MODELS = {"StiefelWalk": orthonormal, "ReversibleJump": selection_logistic}


def in_matrix(test, proposal="default", proxy="none", rows="default") -> Combination:
    """Return the combination of four parts, on the model that goes with the proposal."""
    parts = (test, proposal, proxy, rows)
    model = MODELS.get(proposal, logistic)
    return Combination(" ".join(parts), model, partial(_step_of, *parts), is_allowed(*parts))


def _judged(result, model, step):
    found = pma.reliability(result, model, step=step, n_states=5)
    states = {f"states/{name}": found.states[name].to_numpy() for name in found.states}
    verdicts = {f"verdict/{name}": np.array(row["verdict"]) for name, row in found.checks.iterrows()}
    return {"verdict": np.array(found.verdict), "passes": np.array(found.passes), **verdicts, **states}


def _designed(result, model, step):
    trial = pma.run_trial(step, n_pairs=40, tune=100, seed=3)
    average = pma.design_test(trial, tolerance=0.05, batch_sizes=[20, 50, 100])
    worst = pma.design_test(trial, tolerance=0.2, batch_sizes=[20, 50], kind="worst-case")
    found = {"log_ratio": trial.log_ratio, "noise_sd": trial.noise_sd}
    for kind, design in (("average", average), ("worst", worst)):
        found[kind] = np.array([*dict(design).values(), design.error, design.share, design.worst_error])
    return {f"trial/{name}": value for name, value in found.items()}


def _with_new_data(result, model, step):
    with model:
        pm.set_data({"table": X[:120, 1:] * 0.7, "labels": LABELS[:120]})
    return arrays_of(sample(model, step, seed=SEED + 1), "after/")


def _special() -> list[Combination]:
    walk = {"proxy": None, "proposal": pma.RandomWalk(scale=0.2)}

    def one(name, model, step, **more):
        return Combination(name, model, step, **more)

    barker, approx, penalty = (TESTS[name] for name in ("MinibatchBarker", "ApproxMH", "PenaltyMH"))
    return [
        one("temperature 2", logistic, lambda m: barker(temperature=2.0, **walk)),
        one("temperature 2, proxy", logistic, lambda m: penalty(temperature=2.0)),
        one("Annealing", logistic, lambda m: approx(temperature=pma.Annealing(start=20, steps=150), **walk)),
        one("Annealing, proxy", logistic, lambda m: barker(temperature=pma.Annealing(start=20, steps=150, final=2.0))),
        one("TemperatureDrop", logistic, lambda m: barker(temperature=pma.TemperatureDrop(20, 150), **walk)),
        one("tune=False", logistic, lambda m: approx(tune=False, **walk)),
        one("no tuning, auto", logistic, lambda m: TEST_VARIANTS["ApproxMH(auto)"](**walk), sample={"tune": 0}),
        one("MHSS", logistic, lambda m: pma.MHSS()),
        one("SGLD", logistic, lambda m: pma.SGLD(step_size=0.01, batch_size=50)),
        one("SGLD Taylor(1)", logistic, lambda m: pma.SGLD(step_size=0.01, batch_size=50, proxy=pma.Taylor(1))),
        one("SGLD Taylor(2)", logistic, lambda m: pma.SGLD(step_size=0.01, batch_size=50, proxy=pma.Taylor(2))),
        one("SGLD preconditioned", logistic, lambda m: pma.SGLD(step_size=0.5, preconditioner=[0.02, 0.01])),
        one("Gibbs binary", binary_field, lambda m: pma.ApproxGibbs([m["x"]], factors=PAIRS, batch_size=3)),
        one("Gibbs exact", binary_field, lambda m: pma.ApproxGibbs([m["x"]], factors=PAIRS, epsilon=0.0)),
        one("Gibbs categorical", categorical_field, lambda m: pma.ApproxGibbs([m["x"]], factors=PAIRS, batch_size=3)),
        one("discrete", discrete, lambda m: approx(proposal=pma.RandomWalk(scale=1.0), merge_rows=False)),
        one("discrete, default", discrete, lambda m: penalty(merge_rows=False)),
        one("discrete, proxy", discrete, lambda m: penalty(proxy=pma.Taylor()), allowed=False),
        one("discrete, Langevin", discrete, lambda m: penalty(proposal=pma.Langevin()), allowed=False),
        one("no bound", with_scale, lambda m: pma.MHSubLhd(), allowed=False),
        one("normal mean", normal_mean, lambda m: approx(**walk)),
        one("normal mean, proxy", normal_mean, lambda m: penalty()),
        one("others", with_scale, lambda m: [approx([m["mu"]], proxy=None), pm.Slice([m["sigma"]])]),
        one("others, proxy", with_scale, lambda m: [penalty([m["mu"]]), pm.Slice([m["sigma"]])]),
        one("two of ours", with_scale, lambda m: [barker([m["mu"]], proxy=None), penalty([m["sigma"]], proxy=None)]),
        one("jump on a normal", selection, partial(_step_of, "PenaltyMH", "ReversibleJump", "none", "default")),
        one("set_data", replaceable, lambda m: approx(**walk), then=_with_new_data),
        one("set_data, proxy", replaceable, lambda m: penalty(), then=_with_new_data),
        one("reliability, no proxy", logistic, lambda m: approx(**walk), then=_judged),
        one("reliability, proxy", logistic, lambda m: penalty(proxy=pma.Taylor(1)), then=_judged),
        one("reliability, Barker", logistic, lambda m: barker(**walk), then=_judged),
        one("trial and design", logistic, lambda m: approx(**walk), then=_designed),
        one("groups", grouped_logistic, lambda m: pma.MHSS()),
        one("groups, not centred", grouped_not_centred, lambda m: penalty()),
        one("groups, crossed", crossed, lambda m: pma.MHSS()),
    ]


#: "auto" builds the second order, and by default rows are weighted where the test takes weights.
PROXIES_WITH_ROWS = [
    *product(("none",), ROWS),
    ("auto", "default"),
    *product(("Taylor(1)", "Taylor(2)"), ("Uniform", "Weighted")),
]
DEFAULTS_MIXED = [("Taylor(2)", "default"), ("auto", "Uniform"), ("auto", "Weighted")]


def _everything() -> dict[str, Combination]:
    matrix = [
        *((*pair, *rest) for pair, rest in product(product(TESTS, PROPOSALS), PROXIES_WITH_ROWS)),
        *(
            (*pair, *rest)
            for pair, rest in product(
                product(("MHSubLhd", "PenaltyMH"), ("default", "Langevin", "SurrogateHMC")), DEFAULTS_MIXED
            )
        ),
        *product(TEST_VARIANTS, PROPOSALS, ("none", "auto"), ("default",)),
        *product(TESTS, PROPOSAL_VARIANTS, ("none", "auto"), ("default",)),
        *product(ALL_TESTS, ("StiefelWalk",), ("none", "auto", "Taylor(2)"), ("default", "Weighted")),
        *product(TESTS, ("ReversibleJump",), ("none", "auto"), ("default",)),
        *product(TAKE_WEIGHTS, ("ReversibleJump",), ("Taylor(1)",), ("Uniform", "Weighted")),
        *product(("MHSubLhd", "MHSubLhd(function)"), ("ReversibleJump",), ("Taylor(2)",), ("default",)),
    ]
    every = [in_matrix(*parts) for parts in matrix] + _special()
    found = {c.name: c for c in every}
    assert len(found) == len(every), "two combinations have the same name"
    return found


EVERYTHING = _everything()

#: Each part at least once, and parts that share compiled code where that is possible.
CHOSEN = [
    "ApproxMH RandomWalk none default", "ApproxMH(alpha) RandomWalk none default",
    "ApproxMH(auto) AdaptiveMetropolis none default", "ApproxMH default auto default",
    "ApproxMH CrankNicolson(df) auto default", "MHSubLhd RandomWalk none default",
    "MHSubLhd(scan) RandomWalk none default", "MHSubLhd(function) RandomWalk none default",
    "MHSubLhd default Taylor(2) default", "MinibatchBarker RandomWalk(cov) none default",
    "MinibatchBarker(paper) RandomWalk none default", "MinibatchBarker SurrogateHMC(adapt) auto default",
    "PenaltyMH CrankNicolson Taylor(1) Weighted", "PenaltyMH SurrogateHMC auto Uniform",
    "PenaltyMH Langevin Taylor(2) default", "PenaltyMH SurrogateHMC none default",
    "MinibatchMH RandomWalk none Uniform", "ExactMH RandomWalk none default", "ExactMH RandomWalk none Weighted",
    "ExactMH(ExactBarker) Langevin none default", "ExactMH StiefelWalk auto default",
    "PenaltyMH ReversibleJump auto default", "MinibatchBarker ReversibleJump none default", "temperature 2",
    "Annealing", "TemperatureDrop", "MHSS", "SGLD", "Gibbs binary", "Gibbs categorical", "discrete", "others, proxy",
    "set_data, proxy", "reliability, no proxy", "reliability, proxy", "trial and design", "groups",
    "groups, not centred", "groups, crossed",
]  # fmt: skip


# What is remembered, and how it is compared


def stored_form(found: Mapping[str, np.ndarray], in_full: bool) -> dict[str, Any]:
    """Return numbers with few digits, by name: all of them, or the last of each array and their mean."""
    form = {}
    for name, values in found.items():
        if values.dtype.kind in "UO":
            form[name] = values.tolist()
        elif in_full:
            flat = [_short(v) for v in values.ravel()]
            one = all(v == flat[0] for v in flat)
            form[name] = {"shape": list(values.shape), "values": flat[:1] if one else flat}
        else:
            finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
            mean, last = (float(finite.mean()), finite.ravel()[-1]) if finite.size else (0.0, 0)
            form[name] = {"shape": list(values.shape), "mean": _short(mean), "last": _short(last)}
    return form


def _short(value):
    if isinstance(value, float | np.floating):
        return float(f"{value:.8g}") if np.isfinite(value) else str(value)
    return int(value)


def differences(found: Mapping[str, Any], stored: Mapping[str, Any], allowed: float = 1.0) -> list[str]:
    """Return in words how two stored forms differ by more than rounding; nothing where they agree.

    `allowed` multiplies the tolerances.
    """
    said = [f"{name}: only in {where}" for name, where in _lonely(found, stored)]
    for name in found.keys() & stored.keys():
        new, old = found[name], stored[name]
        if not (isinstance(new, dict) and isinstance(old, dict)):
            if new != old:
                said.append(f"{name}: {new} in place of {old}")
        elif new.keys() != old.keys() or new["shape"] != old["shape"]:
            said.append(f"{name}: of shape {new['shape']} in place of {old['shape']}, or kept in another form")
        else:
            said += [
                f"{name}: {words}" for key in new if key != "shape" and (words := _apart(new[key], old[key], allowed))
            ]
    return sorted(said)


def allowed_for(name: str) -> float:
    """Return what tolerances are multiplied by for a combination."""
    return OF_GROUPS if name.startswith("groups") else 1.0


def _lonely(found, stored):
    yield from ((name, "what was found") for name in found.keys() - stored.keys())
    yield from ((name, "what is stored") for name in stored.keys() - found.keys())


def _apart(new, old, allowed) -> str:
    new, old = (np.atleast_1d(np.array(values, dtype=float)) for values in (new, old))
    size = max(new.size, old.size)
    new, old = np.broadcast_to(new, size), np.broadcast_to(old, size)
    apart = ~np.isclose(new, old, rtol=allowed * RTOL, atol=allowed * ATOL, equal_nan=True)
    if not apart.any():
        return ""
    k = int(np.argmax(apart))
    return f"{apart.sum()} of {size} numbers, the first at {k}: {new[k]} in place of {old[k]}"


def read(path: Path) -> dict[str, Any]:
    """Return what a file holds; nothing where there is none."""
    return json.loads(path.read_text()) if path.exists() else {}


def write_stored(stored: Mapping[str, Any], path: Path = STORED) -> None:
    """Write a line for each array, in the order of names, so that a difference can be read."""
    blocks = []
    for name in sorted(stored):
        lines = [f"  {json.dumps(key)}: {_line(value)}" for key, value in sorted(stored[name].items())]
        blocks.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n }")
    path.parent.mkdir(exist_ok=True)
    path.write_text("{" + ",\n".join(blocks) + "}\n")


def _line(value) -> str:
    return json.dumps(value, separators=(",", ":"))


# The command line


def main(arguments: list[str] | None = None) -> int:
    """Check or renew; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["check", "renew"])
    parser.add_argument("patterns", nargs="*", help="names of combinations, with wildcards; all by default")
    parser.add_argument("--all", action="store_true", help="every combination, not only the chosen ones")
    options = parser.parse_intermixed_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    logging.getLogger("pymc_austerity").setLevel(logging.ERROR)

    names = list(EVERYTHING) if options.all or options.patterns else CHOSEN
    if options.patterns:
        names = [n for n in names if any(fnmatchcase(n, pattern) for pattern in options.patterns)]
    if len(names) > CHUNK:
        return _in_chunks(names, options)
    stored, wrong = read(STORED), 0
    for name in names:
        said = _one(name, options, stored)
        wrong += bool(said)
        print(f"{name}: {'; '.join(said) or 'as it should be'}", flush=True)
    return int(wrong > 0)


def _in_chunks(names: list[str], options: argparse.Namespace) -> int:
    """Run some combinations after others, each lot in a process of its own."""
    if options.command == "renew":
        write_stored({name: entry for name, entry in read(STORED).items() if name in EVERYTHING})
    wrong = 0
    for start in range(0, len(names), CHUNK):
        print(f"{start} of {len(names)} done", flush=True)
        command = [sys.executable, __file__, options.command, *names[start : start + CHUNK]]
        wrong += subprocess.run(command, check=False).returncode
    print(f"{len(names)} done, {'none differs' if not wrong else f'with differences in {wrong} lots'}", flush=True)
    return int(wrong > 0)


def _one(name: str, options: argparse.Namespace, stored: dict) -> list[str]:
    """Run one combination, and compare it or store it; return what is wrong."""
    try:
        found = EVERYTHING[name].run()
    except Exception as problem:
        return [f"{type(problem).__name__} while sampling: {problem}"]
    said = []
    if EVERYTHING[name].allowed == ("refused" in found):
        said.append(f"refused ({found['refused']})" if "refused" in found else "built, but should be refused")
    form = stored_form(found, name in CHOSEN)
    if options.command == "check":
        return said + (
            differences(form, stored[name], allowed_for(name)) if name in stored else ["nothing is stored for it"]
        )
    stored[name] = form
    write_stored(stored)
    return said


if __name__ == "__main__":
    sys.exit(main())
