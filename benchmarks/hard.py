"""Posteriors that are not normal: effective draws a CPU second, errors and verdicts, beside nutpie.

Run ``python benchmarks/hard.py`` (``--posteriors`` and ``--steps`` choose); what is in the file of ``--kept`` is not
run again.  Steps as they are, 2 chains of ``--draws`` draws after 1,000 to tune, ended after ``--seconds``.  Nutpie
with either matrix, 1,000 draws after 400 to tune: a first chain that is ended after ``--nutpie`` seconds of processor
time, and a second one where the first took less than half of them.  ESS is ArviZ's bulk ESS of the slowest parameter;
seconds are of processor time, set-up and tuning included, compiled code on disk.  "< 5" is a chain that was ended while
it tuned, with five draws a second.

Errors are of means, standard deviations and quantiles of 5 and 95 %, in posterior standard deviations: the largest
that the Monte Carlo error of a run and of the slower nutpie's does not explain.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from hard_posteriors import POSTERIORS, TAILS
from scipy import stats
from timing import show

import pymc_austerity as pma

Draws = dict[str, np.ndarray]

#: Draws of a chain below which a run has no verdict.
_FEW = 200


class Heard(logging.Handler):
    """Keeps warnings, and other messages that name NUTS."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.warned: list[str] = []
        self.hints: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        if record.levelno >= logging.WARNING:
            self.warned.append(record.getMessage())
        elif "NUTS" in record.getMessage():
            self.hints.append(record.getMessage())


def draws_of(idata: Any, model: pm.Model) -> Draws:
    """Return the draws of all entries of the free variables that were kept, chains by draws."""
    found = {}
    for rv in (rv for rv in model.free_RVs if rv.name in idata.posterior):
        values = idata.posterior[rv.name].to_numpy()
        for i, entry in enumerate(np.moveaxis(values.reshape(*values.shape[:2], -1), 2, 0)):
            found[f"{rv.name}[{i}]"] = entry
    return found


def slowest(found: Draws) -> tuple[str, float]:
    """Return the entry with the fewest effective draws, and these; none where it did not move or has too few draws."""
    ess = {name: float(np.nan_to_num(az.ess(x))) if np.ptp(x) else 0.0 for name, x in found.items()}
    return min(ess.items(), key=lambda item: item[1])


def four_of(found: Draws) -> tuple[np.ndarray, np.ndarray]:
    """Return mean, standard deviation, and 5 and 95 % quantiles of all entries, shape (4, D), and ArviZ's errors."""
    draws = np.stack(list(found.values()), axis=-1)
    how = [{"method": "mean"}, {"method": "sd"}, *({"method": "quantile", "prob": p} for p in (0.05, 0.95))]
    values = [draws.mean((0, 1)), draws.std((0, 1)), *np.quantile(draws, [0.05, 0.95], axis=(0, 1))]
    return np.array(values), np.array([az.mcse(draws, **one) for one in how], float)


def error_shown(found: Draws, reference: Draws) -> float:
    """Return the largest error that chance does not explain, in standard deviations of the reference."""
    (ours, our_errors), (right, right_errors) = four_of(found), four_of(reference)
    error, mcse = np.abs(ours - right) / right[1], np.hypot(our_errors, right_errors) / right[1]
    shown = error - stats.norm.isf(0.025 / error.size) * np.nan_to_num(mcse, nan=np.inf)
    return max(0.0, float(shown.max()))


def nutpie_chain(compiled: Any, seconds: float, **options: Any) -> Any:
    """Return what one chain of nutpie has drawn after some seconds of processor time."""
    import nutpie

    start = time.process_time()
    sampler = nutpie.sample(compiled, chains=1, cores=1, progress_bar=False, blocking=False, **options)
    while True:
        try:
            return sampler.wait(timeout=0.2)
        except TimeoutError:
            if time.process_time() - start > seconds:
                return sampler.abort()


def by_nutpie(model: pm.Model, draws: int, low_rank: bool, seconds: float = np.inf) -> tuple[Draws, float]:
    """Return draws of up to two chains, and effective ones a CPU second; less than 0 where a chain still tuned."""
    import nutpie

    start = time.process_time()
    compiled = nutpie.compile_pymc_model(model)
    chains: list[Any] = []
    before = time.process_time()
    while len(chains) < 2 and time.process_time() - before <= seconds / 2:
        options = {"seed": 1 + len(chains), "adaptation": "low_rank" if low_rank else "diag"}
        chains.append(nutpie_chain(compiled, seconds, draws=draws, tune=400, **options))
    passed = time.process_time() - start
    if not chains[0].posterior.sizes["draw"]:
        return {}, -chains[0].warmup_posterior.sizes["draw"] / passed
    each = [draws_of(chain, model) for chain in chains]
    n = min(chain.posterior.sizes["draw"] for chain in chains)
    found = {name: np.concatenate([chain[name][:, :n] for chain in each]) for name in each[0]}
    return found, slowest(found)[1] / passed


def by_step(make: Any, model: pm.Model, options: argparse.Namespace, references: list[Draws]) -> dict[str, Any]:
    """Return what a step says and does."""
    heard, log = Heard(), logging.getLogger("pymc_austerity")
    log.addHandler(heard)
    start = time.process_time()
    try:
        with model:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                step = make(progressbar=False)
            set_up = time.process_time() - start
            announced = "; ".join([*heard.warned, *(str(w.message) for w in caught)])
            idata = pm.sample(
                options.draws, tune=1_000, step=step, chains=2, cores=1, random_seed=1, progressbar=False,
                compute_convergence_checks=False, quiet=True,
                callback=pma.stop_at(seconds=options.seconds, chains=2),
            )  # fmt: skip
            seconds = time.process_time() - start
            verdict = pma.reliability(idata, model, step=step, progressbar=False).verdict
    except Exception as error:
        return {"announced": f"{type(error).__name__}: {error}", "hints": ""}
    finally:
        log.removeHandler(heard)
    found = draws_of(idata, model)
    rows = float(idata.sample_stats["n_rows"].mean())
    return {
        "set-up": set_up, "CPU s": seconds, "draws": idata.posterior.sizes["draw"], "rows": rows,
        "ESS/s": slowest(found)[1] / seconds,
        "error": min((error_shown(found, reference) for reference in references), default=None),
        "verdict": verdict, "announced": announced, "hints": "; ".join(heard.hints),
    }  # fmt: skip


def run(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return what all samplers make of a posterior, in this process."""
    import nutpie

    found: dict[str, Any] = {"posterior": name}
    references = []
    nutpie.compile_pymc_model(POSTERIORS[name]())  # from here on all compiled code is on disk
    for step in options.steps:
        with POSTERIORS[name](), contextlib.suppress(Exception):
            getattr(pma, step)(progressbar=False)
    for label, low_rank in (("nutpie", False), ("low rank", True)):
        drawn, found[label] = by_nutpie(POSTERIORS[name](), 1_000, low_rank, options.nutpie)
        references += [drawn] if drawn else []
    for step in options.steps:
        found[step] = by_step(getattr(pma, step), POSTERIORS[name](), options, references)
    return found


def speed(value: float | None) -> str:
    """Say a speed: three digits at most, and an upper bound where a chain still tuned."""
    if value is None:
        return ""
    return f"< {-value:.2g}" if value < 0 else f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def verdict(step: dict[str, Any]) -> str:
    """Say what is known of a run: nothing, of one that was ended after so few draws that no chains could agree."""
    return f"ended after {step['draws']}" if step.get("draws", _FEW) < _FEW else step.get("verdict", "refused")


def usable(step: dict[str, Any]) -> float:
    """Return the effective draws a second of a run with a verdict that is not "do not trust", and 0 of others."""
    return step["ESS/s"] if verdict(step) in ("trust", "trust with care", "not known") else 0.0


def ahead(line: dict[str, Any], steps: list[str]) -> tuple[str, float]:
    """Return the quickest step whose run is usable, and how many times as quick as the better nutpie it is."""
    name = max(steps, key=lambda step: usable(line[step]))
    return name, usable(line[name]) / max(abs(line["nutpie"]), abs(line["low rank"]))


def unannounced(step: dict[str, Any]) -> bool:
    """Whether a run is not to be trusted and building its step did not say so."""
    return verdict(step) == "do not trust" and not step["announced"]


def report(lines: list[dict[str, Any]], steps: list[str]) -> None:
    """Print who is ahead on which posterior, what each step said, and the counts."""
    first, second = [], []
    for line in lines:
        name, ratio = ahead(line, steps)
        speeds = {step: speed(line[step].get("ESS/s")) for step in steps}
        nutpie = {label: speed(line[label]) for label in ("nutpie", "low rank")}
        best = f"{name}, {ratio:.2g} times" if ratio > 1 else f"nutpie, {1 / ratio:.2g} times" if ratio else "nutpie"
        first.append({"posterior": line["posterior"], **speeds, **nutpie, "ahead": best})
        for step in steps:
            told = line[step]
            second.append({
                "posterior": line["posterior"], "step": step, "rows": told.get("rows", ""),
                "error": "" if told.get("error") is None else f"{told['error']:.2g}",
                "verdict": verdict(told), "said while it was built": (told["announced"] or told["hints"])[:80],
            })  # fmt: skip
    show(first)
    won = sum(ahead(line, steps)[1] > 1 for line in lines)
    silent = sum(unannounced(line[step]) for line in lines for step in steps)
    lost = [line[step] for line in lines if ahead(line, steps)[1] <= 1 for step in steps]
    named = sum("NUTS" in told["announced"] + told["hints"] for told in lost)
    print(f"\nA step is ahead of the better nutpie on {won} of {len(lines)} posteriors.")
    print(f"On the others {named} of {len(lost)} steps name NUTS while they are built.")
    both = [line for line in lines if line["posterior"] in TAILS] if len(steps) == 2 else []
    slower = [line["PenaltyMH"]["ESS/s"] / line["MHSS"]["ESS/s"] for line in both]
    if slower:
        times = f"{min(slower):.1f} to {max(slower):.1f} times"
        print(f"On tails that the prior decides about PenaltyMH is {times} ahead of MHSS.")
    print()
    show(second)
    print(f'\n"do not trust" without a word while the step was built: {silent} of {len(second)} runs.')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--posteriors", nargs="+", default=list(POSTERIORS), choices=list(POSTERIORS))
    parser.add_argument("--steps", nargs="+", default=["PenaltyMH", "MHSS"], choices=["PenaltyMH", "MHSS"])
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--nutpie", type=float, default=20)
    parser.add_argument("--kept", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = {}
    if options.kept and options.kept.exists():
        lines = {line["posterior"]: line for line in map(json.loads, options.kept.read_text().splitlines())}
    for name in options.posteriors:
        if name not in lines:
            lines[name] = run(name, options)
            print(json.dumps(lines[name]), file=sys.stderr, flush=True)
            if options.kept:
                with options.kept.open("a") as kept:
                    kept.write(json.dumps(lines[name]) + "\n")
    report([lines[name] for name in options.posteriors], options.steps)


if __name__ == "__main__":
    main()
