"""A chain's look at itself when it ends, by the rules of `verdicts`: the warnings at the end of ``pm.sample``."""

from collections import deque

import numpy as np
from pymc.stats.convergence import SamplerWarning, WarningType

from pymc_austerity.acceptance import Reads
from pymc_austerity.diagnostics.built_steps import as_population
from pymc_austerity.diagnostics.judged_decisions import judge_shapes, judge_stops
from pymc_austerity.diagnostics.place_of_draws import movement
from pymc_austerity.diagnostics.spot_check import evaluate_pair, pair_shape
from pymc_austerity.diagnostics.verdicts import TRUST, Finding, judge_acceptance, judge_movement, overall
from pymc_austerity.kernel import Chain, Outcome

#: Fewer draws show nothing; of more, the last ones are looked at.
_FEWEST, _LAST = 100, 5_000
#: Proposals whose rows are all read, a pass over the data each.
_PAIRS = 2
#: What is noted of each draw.
_STATS = ("accepted", "n_rows", "full_data", "log_ratio", "log_ratio_sd", "threshold")
#: Slots of a pool that stand for all rows: a sum over them is off by a twentieth of the noise of a batch.
_MOST_SLOTS = 100_000


class Watch:
    """Collects the decisions of one chain after tuning and warns once, when the chain ends.

    `length` is the number of draws after tuning, each of `thin` transitions. PyMC 5 does not tell it; there the chain
    looks at itself after 200 draws, 400, 800 and so on.
    """

    def __init__(self, length: int | None, name: str, thin: int = 1):
        self._name, self._thin = name, thin
        self._length, self._n, self._done = length, 0, False
        self._next = 2 * _FEWEST
        self._far_apart: list[np.ndarray] = []
        self._recent: deque[list[float]] = deque(maxlen=_LAST)

    def after(self, chain: Chain, outcome: Outcome, others: np.ndarray) -> SamplerWarning | None:
        """Take a draw in; return what there is to say, if the chain ends and something is wrong."""
        self._n += 1
        if self._n & (self._n - 1) == 0:  # the first draw, and the last that is a power of two
            self._far_apart = [*self._far_apart[:1], outcome.theta.copy()]
        self._recent.append([getattr(outcome, name) for name in _STATS])
        if self._done or not self._is_due():
            return None
        try:
            findings = self._findings(chain, outcome.theta, others)
        except Exception as error:  # a chain must not be lost to a look at itself, whatever its proposal or test
            self._done = True
            message = f"{self._name}: the chain could not look at its decisions ({type(error).__name__}: {error})."
            return SamplerWarning(WarningType.BAD_ACCEPTANCE, message, "warn")
        bad = [f for f in findings if f.verdict != TRUST]
        if not bad:
            return None
        self._done = True
        told = "\n".join(dict.fromkeys([*(f"- {f.reason}" for f in bad), *(f"→ {f.remedy}" for f in bad)]))
        message = f"{self._name}: {overall(bad)}. See pymc_austerity.reliability(idata, model).\n{told}"
        return SamplerWarning(WarningType.BAD_ACCEPTANCE, message, "warn")

    def _is_due(self) -> bool:
        if self._length is not None:
            return self._n == self._length and self._n >= _FEWEST
        if self._n < self._next:
            return False
        self._next *= 2
        return True

    def _findings(self, chain: Chain, theta: np.ndarray, others: np.ndarray) -> list[Finding]:
        decider = as_population(chain.decider, _MOST_SLOTS)
        stats = {name: np.array(column) for name, column in zip(_STATS, zip(*self._recent))}
        change, _ = movement(decider, [*self._far_apart, theta], others)
        findings = [judge_acceptance(float(stats["accepted"].mean())), judge_movement(change)]
        partial = ~stats["full_data"] & (stats["n_rows"] > 0)
        if not partial.any() or decider.test.reads is not Reads.BATCHES:
            return findings
        findings += judge_stops(decider, stats)
        rng = np.random.default_rng(0)  # the chain's own generators stay as they are
        proposed = (decider.propose(theta, others, chain.state, rng) for _ in range(_PAIRS))
        pairs = (evaluate_pair(decider, of) for of in proposed)
        n = float(stats["n_rows"][partial].mean()) / self._thin
        if batches := [(pair_shape(decider, pair), n) for pair in pairs if pair is not None]:
            findings += judge_shapes(decider, batches, len(decider.parts.stored))
        return findings
