"""Every test and every proposal goes through the same questions.

They are found by inheritance: a new one is asked as soon as it exists, and fails until it has a case here.
"""

import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass
from typing import Any

import golden
import numpy as np
import pytest

import pymc_austerity as pma
from pymc_austerity.acceptance import (
    ACCEPT,
    UNDECIDED,
    AcceptanceTest,
    Exact,
    ExactBarker,
    Moments,
    NeedsDistinctRowsError,
)
from pymc_austerity.acceptance.barker import barker_probability
from pymc_austerity.acceptance.decision import metropolis_probability
from pymc_austerity.kernel.chain import Chain
from pymc_austerity.kernel.tuned_state import TunedState, restore
from pymc_austerity.proposals import Proposal

N = 1_000
NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True)
class Case:
    """A working part, and for each of its arguments values that it must refuse."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    wrong: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


SIZES, RATES = (0, 1, 2.5), (0, 1, NAN)
TESTS = {
    "Exact": Case(),
    "ExactBarker": Case(),
    "AlwaysAccept": Case(),
    "SequentialT": Case({"epsilon": 0.05, "batch_size": 50}, {
        "epsilon": (-0.1, 0.6, NAN), "batch_size": SIZES, "alpha": (0.4, 1.1, NAN), "replacement": (),
    }),
    "FixedBatch": Case({"batch_size": 50}, {"batch_size": SIZES}),
    "ConcentrationBound": Case({}, {
        "delta": (0, 1, NAN), "gamma": (1, NAN), "p": (1, NAN), "batch_size": SIZES, "inequality": ("bernstein",),
    }),
    "Barker": Case({"batch_size": 50}, {
        "batch_size": SIZES, "sigma": (0.1, 2, NAN), "growth": (1, NAN), "normality_tol": (0, -1, NAN), "skewness": (),
    }),
    "ScalableSubsampling": Case(),
    "NoisePenalty": Case({"batch_size": 50}, {"batch_size": SIZES, "max_variance": (0, INF, NAN), "growth": (1, NAN)}),
}  # fmt: skip
#: What is () is known only with the model: tests/proposals.
PROPOSALS = {
    "RandomWalk": Case({}, {
        "scale": (0, -1, NAN, INF), "cov": (1.0, [[1.0, 2.0]], -np.eye(2)), "target_accept": RATES,
    }),
    "AdaptiveMetropolis": Case({}, {"target_accept": RATES}),
    "Langevin": Case({"batch_size": 50}, {
        "step_size": (0, NAN, INF), "batch_size": (0, 1.5), "preconditioner": (0.0, -np.eye(2), np.zeros((2, 3))),
        "target_accept": RATES,
    }),
    "SurrogateHMC": Case({}, {
        "step_size": (0, NAN, "long"), "path_length": (0, NAN, "long"), "transitions": (0, 1.5, "many"),
    }),
    "CrankNicolson": Case({}, {"rho": (1, -0.1, NAN, "small"), "degrees_of_freedom": (0, -1, NAN, INF)}),
    "StiefelWalk": Case({}, {"scale": (0, NAN, INF), "target_accept": RATES}),
    "ReversibleJump": Case({"coefficients": "beta", "indicators": "gamma"}, {
        "coefficients": (), "indicators": (), "smallest": (), "largest": (), "birth_scale": (0, NAN),
        "birth_centre": (NAN, INF), "update_scale": (0, NAN), "target_accept": RATES,
        "weights": ((1, 1), (1, 0, 1), (1, NAN, 1)), "excluded": (0, NAN), "transitions": (0, 1.5, True),
    }),
}  # fmt: skip


def of_the_package(root: type) -> dict[str, type]:
    found, waiting = {}, [root]
    while waiting:
        for cls in waiting.pop().__subclasses__():
            waiting.append(cls)
            # Settings make a part; what several parts inherit from has none.
            if cls.__module__.startswith("pymc_austerity.") and is_dataclass(cls):
                found[cls.__name__] = cls
    return found


ALL_TESTS, ALL_PROPOSALS = of_the_package(AcceptanceTest), of_the_package(Proposal)


def test_every_part_has_a_case_here():
    assert set(ALL_TESTS) == set(TESTS)
    assert set(ALL_PROPOSALS) == set(PROPOSALS)


EVERY = {name: (cls, {**TESTS, **PROPOSALS}.get(name)) for name, cls in (ALL_TESTS | ALL_PROPOSALS).items()}


@pytest.mark.parametrize(("cls", "case"), EVERY.values(), ids=EVERY)
def test_a_part_is_frozen_picklable_and_names_wrong_arguments(cls, case):
    part = cls(**case.arguments)
    with pytest.raises(FrozenInstanceError):
        part.anything = 1
    copy = pickle.loads(pickle.dumps(part))
    assert (type(copy), repr(copy)) == (cls, repr(part))
    names = {f.name for f in fields(cls)}
    assert names == set(case.wrong)
    for name, values in case.wrong.items():
        for value in values:
            with pytest.raises((ValueError, TypeError), match=name):
                cls(**{**case.arguments, name: value})


@pytest.fixture(params=[name for name in TESTS if name in ALL_TESTS])
def part(request):
    return ALL_TESTS[request.param](**TESTS[request.param].arguments)


def oracle(test):
    return {metropolis_probability: Exact(), barker_probability: ExactBarker()}.get(test.probability)


def decisions_at_all_rows(test, decide, n_total=N, count=4_000):
    """Decide on all rows, in the last look, with noise from one generator."""
    rng, looks = np.random.default_rng(1), test.looks(n_total)
    moments = Moments(n_total, n_total, mean=-0.0005, sd=0.02, bound=0.1)
    last = len(looks.sizes) - 1
    return np.array([decide(looks, last, moments, 0.1, float(n_total), test.draw_noise(rng)) for _ in range(count)])


def test_at_all_rows_a_test_is_its_exact_form(part):
    verdicts = decisions_at_all_rows(part, part.decide)
    assert UNDECIDED not in verdicts
    expected = part.probability(N * -0.0005 + 0.1)
    assert abs((verdicts == ACCEPT).mean() - expected) < 5 * np.sqrt(0.25 / verdicts.size)
    exact = oracle(part)
    if exact is not None:
        assert np.array_equal(verdicts, decisions_at_all_rows(exact, exact.decide))


def test_a_decision_without_the_offset_would_be_seen(part):
    if oracle(part) is None:
        pytest.skip(f"{type(part).__name__} accepts whatever the rows say")

    def planted(looks, look, moments, offset, scale, noise):
        return part.decide(looks, look, moments, 0.0, scale, noise)

    assert not np.array_equal(decisions_at_all_rows(part, planted), decisions_at_all_rows(part, part.decide))


def test_looks_grow_and_end_at_all_rows_or_at_a_decision(part):
    for n_rows in (2, 49, 50, 51, N):
        sizes = part.looks(n_rows).sizes
        assert (np.diff(sizes) > 0).all()
        assert sizes[-1] == n_rows or len(sizes) == 1


def test_what_a_test_says_about_itself(part):
    assert part.as_recorded({}) == part
    assert part.remedy().endswith(".")
    looks, rng = part.looks(N), np.random.default_rng(2)
    moments = Moments(N, N, mean=0.0, sd=1.0, bound=1.0)
    assert isinstance(part.threshold(looks, len(looks.sizes) - 1, moments, 1.0, part.draw_noise(rng)), float)


def test_weighted_rows_are_taken_or_refused_with_the_reason(part):
    refuse = tuple(ALL_TESTS[name] for name in ("FixedBatch", "ConcentrationBound", "ScalableSubsampling"))
    if part.reads.a_part and not isinstance(part, refuse):
        weighted = part.with_replacement()
        assert type(weighted) is type(part)
        assert weighted.with_replacement() == weighted
    else:
        with pytest.raises(NeedsDistinctRowsError, match="without replacement"):
            part.with_replacement()


def model_for(proposal):
    return golden.MODELS.get(proposal, golden.logistic)()


@pytest.fixture(scope="module", params=[name for name in PROPOSALS if name in ALL_PROPOSALS])
def step(request):
    proposal = ALL_PROPOSALS[request.param](**PROPOSALS[request.param].arguments)
    with model_for(request.param):
        return pma.PenaltyMH(proposal=proposal, proxy="auto" if proposal.needs_proxy else None)


def tuned_chain(decider, seed, transitions=400):
    chain = Chain(decider, np.random.default_rng(seed))
    theta = decider.parts.theta0 if chain.start is None else chain.start
    for _ in range(transitions):
        outcome = chain.transition(theta, decider.parts.others0, 1.0)
        theta = outcome.theta
        chain.adapt(outcome)
    return chain, theta


@pytest.mark.slow
def test_a_proposal_keeps_to_the_one_signature(step):
    decider = step.decider
    chain, theta = tuned_chain(decider, 21)
    before, around = theta.copy(), decider.surroundings(np.empty(0))
    proposed, again = (decider.move.propose(np.random.default_rng(5), theta, chain.state, around) for _ in range(2))
    assert [type(part) for part in proposed[1:]] == [float, int]
    assert (proposed[2] > 0) == decider.move.reads_rows
    assert np.array_equal(theta, before)  # what is proposed from stays as it is
    assert np.array_equal(proposed[0], again[0])
    assert proposed[0].shape == theta.shape


@pytest.mark.slow
def test_what_a_proposal_had_tuned_is_recorded_and_restored(step):
    decider = step.decider
    chain, theta = tuned_chain(decider, 22)
    record = TunedState(decider)
    pieces = [record.stats(chain, False).get("tuned", b"") for _ in range(100)]
    restored = restore(decider, [pieces], float(np.exp(chain.state.log_scale[0])))
    around = decider.surroundings(np.empty(0))

    def proposals(state):
        rng = np.random.default_rng(6)
        return np.array([decider.move.propose(rng, theta, state, around)[0] for _ in range(20)])

    as_tuned = proposals(chain.state)
    assert (as_tuned != theta).any()
    assert np.allclose(proposals(restored), as_tuned, rtol=1e-12, atol=0)
    if any(pieces):
        fresh = proposals(decider.new_state())  # planted mistake: the record is not read
        assert not np.allclose(fresh, as_tuned, rtol=1e-12, atol=0)


@pytest.mark.slow
def test_what_is_read_leaves_the_noise_and_the_proposals_alone(step):
    """The same noise and the same proposal, whether a decision reads one look or all rows."""
    decider, states = step.decider, []
    n = decider.n_table
    for sizes in ((50, n), (n,)):
        chain = Chain(decider, np.random.default_rng(23))
        theta = decider.parts.theta0 if chain.start is None else chain.start
        looks = decider.test.looks(n)._replace(sizes=np.array(sizes))
        chain.transition(theta, decider.parts.others0, 1.0, looks)
        states.append([rng.bit_generator.state["state"] for rng in (chain.rng_propose, chain.rng_decide)])
    assert states[0] == states[1]


def test_a_proposal_that_needs_a_proxy_or_can_have_none_says_so():
    for name, cls in ALL_PROPOSALS.items():
        proposal = cls(**PROPOSALS[name].arguments)
        with model_for(name):
            if proposal.needs_proxy:
                with pytest.raises(ValueError, match="proxy=None excludes it"):
                    pma.PenaltyMH(proposal=proposal, proxy=None)
            if proposal.no_proxy_because:
                with pytest.raises(ValueError, match=proposal.no_proxy_because):
                    pma.PenaltyMH(proposal=proposal, proxy=pma.Taylor())
