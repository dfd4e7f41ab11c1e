"""Models with many groups: effective draws a CPU second of `GroupMH` beside nutpie, or PyMC's NUTS.

Run ``python benchmarks/groups.py`` (``--problems`` chooses, ``--tune`` and ``--draws`` are those of `GroupMH`,
``--refreshed`` compares shares of the groups, ``--together`` runs `PenaltyMH` with one decision over all of them,
``--reference 0`` leaves NUTS out, ``--columns`` chooses those of the table).  Logistic regressions with five slopes,
groups of very unequal size and an unknown mean and scale of their effects; radon in 386 counties, with an intercept and
a slope each; and crossed factors on real data: late flights by aircraft and destination, delays by carrier too, ratings
by student and lecturer, insurance claims by region and brand.  Nutpie runs most of them centred and not, and not at
all on ten million rows of 100,000 groups (``--problems "10,000,000 x 200,004" --refreshed 0.02``).  One chain each.
CPU time of sampling, tuning included, set-up by itself.  ESS is ArviZ's bulk ESS: the smallest of what the groups
share, and that of the slowest of 20 groups.  Differences are those of the same parameters, from the reference with most
effective draws.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import arviz as az
import group_models as models
import numpy as np
import pandas as pd
import pymc as pm
from agreement import agreement, flat, of_draws
from timing import Run, nuts, peak_memory, sampled, show

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group


class Problem(NamedTuple):
    """A model, the forms of it that the reference samples, and its variables.

    Of very many effects no draws are kept, so that memory is that of the sampler.
    """

    build: Callable[[], pm.Model]
    references: dict[str, Callable[[], pm.Model]]
    shared: tuple[str, ...]
    effects: tuple[str, ...]

    def parameters(self, idata: Any) -> dict[str, np.ndarray]:
        """Return the draws of all that is shared and of 20 groups of each factor, shape (C, S, number) by kind."""

        def some(of: np.ndarray) -> np.ndarray:
            return of[:, :, np.random.default_rng(1).choice(of.shape[2], min(20, of.shape[2]), replace=False)]

        found = {"shared": flat(idata, self.shared)}
        if self.effects:
            found["effects"] = np.concatenate([some(flat(idata, [name])) for name in self.effects], axis=2)
        return found


def _regression(n_rows: int, n_groups: int) -> Problem:
    build = models.groups(n_rows, n_groups).build
    return Problem(build, {"centred": build}, ("intercept", "log_scale", "slopes"), ("effect",))


def _both(build: Callable[..., pm.Model], shared: tuple[str, ...], effects: tuple[str, ...]) -> Problem:
    return Problem(build, {"centred": build, "not centred": partial(build, noncentred=True)}, shared, effects)


SIZES = {
    "3,000 x 36": 30, "10,000 x 106": 100, "15,000 x 156": 150, "30,000 x 306": 300, "100,000 x 1,006": 1_000,
    "200,000 x 2,006": 2_000, "1,000,000 x 10,006": 10_000,
}  # fmt: skip
_NORMAL = ("intercept", "sigma")
PROBLEMS = {
    **{name: _regression(100 * n_groups, n_groups) for name, n_groups in SIZES.items()},
    "10,000,000 x 200,004": Problem(partial(models.with_slopes, 10_000_000, 100_000), {}, ("mean", "scale"), ()),
    "radon": _both(models.radon, ("mean", "scale", "uranium", "sigma"), ("intercept", "slope")),
    "insteval": _both(
        partial(models.normal, "insteval"), (*_NORMAL, "student_scale", "lecturer_scale"), ("student", "lecturer")
    ),
    "insteval, ordinal": _both(
        models.insteval_ordinal, ("cutpoints", "student_scale", "lecturer_scale"), ("student", "lecturer")
    ),
    "flights": _both(models.flights, ("intercept", "slopes", "tail_scale", "dest_scale"), ("tail", "dest")),
    "delays": _both(
        partial(models.normal, "delays"),
        (*_NORMAL, "slopes", "tail_scale", "dest_scale", "carrier_scale"),
        ("tail", "dest", "carrier"),
    ),
    "claims": _both(models.claims, ("intercept", "slopes", "brand_scale", "region_scale"), ("brand", "region")),
}


def worth(problem: Problem, run: Run) -> dict[str, float]:
    """Return effective draws a CPU second."""
    ess = {kind: np.asarray(az.ess(draws)) for kind, draws in problem.parameters(run.idata).items()}
    return {
        "set-up s": run.set_up,
        "sampling s": run.sampling,
        **{f"ESS/s {kind}": float(of.min()) / run.sampling for kind, of in ess.items()},
        **{f"median ESS/s {kind}": float(np.median(of)) / run.sampling for kind, of in ess.items()},
    }


#: What the statistics of a step are called in the table.
SAID = {
    "n_refreshed": "groups a draw", "n_rows": "rows a draw", "n_rows_carried": "of which carried",
    "accepted": "accepted", "scaling": "angle of its moves", "refresh_accept": "refreshed accepted",
    "shift_accept": "shifts accepted",
}  # fmt: skip


def run_step(problem: Problem, build: Callable[[], Any], tune: int, draws: int) -> tuple[Any, dict[str, float]]:
    """Sample with a step; return the draws, and what they cost and are worth."""
    with problem.build():
        run = sampled(build, draws, tune, var_names=[*problem.shared, *problem.effects])
    stats = group(run.idata, "sample_stats")
    said = {SAID[name]: float(stats[name].mean()) for name in SAID if name in stats}
    used = {"ms a draw": 1e3 * run.sampling / (draws + tune), "peak GB": peak_memory()}
    return run.idata, {**said, **used, **worth(problem, run)}


def run(problem: Problem, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Return a column of the table for each run."""
    columns, runs, references = {}, {}, {}
    steps: dict[str, Callable[[], Any]] = {
        f"GroupMH, {share}": partial(pma.GroupMH, refreshed=share, progressbar=False) for share in options.refreshed
    }
    if options.together:
        steps["one decision"] = partial(pma.PenaltyMH, proposal=pma.CrankNicolson(), progressbar=False)
    for key, build in steps.items():
        runs[key], columns[key] = run_step(problem, build, options.tune, options.draws)
        show([columns[key]], sys.stderr)
    for form in problem.references if options.reference else ():
        key = f"NUTS, {form}"
        of_nuts = nuts(problem.references[form](), options.nuts, options.reference, options.reference)
        references[key], columns[key] = of_nuts.idata, worth(problem, of_nuts)
    if references:
        best = max(references, key=lambda key: min(columns[key]["ESS/s shared"], columns[key]["ESS/s effects"]))
        exact, *ours = (
            of_draws(np.concatenate(list(problem.parameters(idata).values()), axis=2))
            for idata in (references[best], *runs.values())
        )
        for key, moments in zip(runs, ours):
            columns[key] |= agreement(moments, exact)
    return columns


def _share(text: str) -> Any:
    return text if text == "auto" else float(text)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--problems", nargs="+", default=["radon", "30,000 x 306", "200,000 x 2,006"], choices=list(PROBLEMS)
    )
    parser.add_argument("--tune", type=int, default=1_000)
    parser.add_argument("--draws", type=int, default=6_000)
    parser.add_argument("--reference", type=int, default=300, help="draws of NUTS, after as many of tuning; 0: none")
    parser.add_argument("--nuts", choices=["nutpie", "pymc"], default="nutpie")
    parser.add_argument("--together", action="store_true", help="beside it PenaltyMH, one decision over all groups")
    parser.add_argument("--refreshed", nargs="+", type=_share, default=["auto"], help="shares of the groups, or auto")
    parser.add_argument("--columns", nargs="+", help="of the table, all by default")
    options = parser.parse_args()
    lines: list[dict[str, Any]] = []
    for name in options.problems:
        lines += [{"problem": name, "step": step, **of} for step, of in run(PROBLEMS[name], options).items()]
    table = pd.DataFrame(lines)
    show(table[options.columns or list(table)])


if __name__ == "__main__":
    main()
