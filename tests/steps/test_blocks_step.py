"""Steps whose rows come from blocks: the posterior of all rows, each row of the pool once, and what is refused."""

import logging
import re
from itertools import islice

import numpy as np
import pymc as pm
import pytest
from pymc.exceptions import SamplingError
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.acceptance.decision import OUT_OF_REACH
from pymc_austerity.blocks import BlockTable, passes
from pymc_austerity.diagnostics.built_steps import as_population
from pymc_austerity.diagnostics.spot_check import evaluate_pair
from pymc_austerity.kernel import Chain
from pymc_austerity.kernel.chain import draw_start
from pymc_austerity.likelihood import read_model
from pymc_austerity.rows import Reservoir
from pymc_austerity.steps.pooled import open_table
from pymc_austerity.steps.process import stopped_chain

N = 1_500


def time_sorted():
    """A logistic regression with rare events: rows sorted by time, which is a covariate, and events come late."""
    rng = np.random.default_rng(8)
    when = np.sort(rng.normal(size=N))
    x = rng.exponential(size=N)
    seen = rng.random(N) < 1 / (1 + np.exp(4.5 - 1.2 * when - 0.4 * x))
    return {"when": when, "x": x, "seen": seen.astype(np.int8)}


ROWS = time_sorted()


def model_of(rows):
    with pm.Model() as model:
        X = pm.Data("X", np.column_stack([rows["when"], rows["x"]]))
        y = pm.Data("seen_data", rows["seen"])
        beta = pm.Normal("beta", 0, 1, shape=2)
        level = pm.Normal("level", 0, 3)
        pm.Bernoulli("seen", logit_p=level + X @ beta, observed=y)
    return model


SAMPLE = model_of({name: column[::5] for name, column in ROWS.items()})
COLUMNS = {"X": ["when", "x"], "seen_data": "seen"}


def blocks(source=ROWS, **options):
    return pma.Blocks(source, COLUMNS, **{"pool": 400_000, "chains": 2, **options})


def built(data, step=pma.PenaltyMH, **options):
    return step(data=data, model=SAMPLE, progressbar=False, **options)


def draw(step, draws, tune=300, model=SAMPLE, **options):
    return sampled(model, step, draws, tune, **options)


@pytest.fixture(scope="module", autouse=True)
def small_pieces():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "PIECE", 128)
        yield


@pytest.fixture(scope="module")
def differs():
    """Whether the draws of a run are those of all rows."""
    model = model_of(ROWS)
    step = pma.ExactMH(proposal=pma.CrankNicolson(), proxy=pma.Taylor(), model=model, progressbar=False)
    truth = draw(step, 4_000, model=model)

    def found(idata):
        table = pma.compare({"blocks": idata, "all rows": truth}, reference="all rows", level=0.001)
        return (table["differs"] != "").any()

    return found


@pytest.mark.slow
def test_an_impossible_row_of_blocks_is_shown():
    seen = np.where(np.arange(N) == 1_234, 2, ROWS["seen"])
    words = r"Row 1234 of the blocks \(the arrays, row 1234\): .*'seen_data' of 'seen' = 2"
    with pytest.raises(ValueError, match=words):
        built(blocks({**ROWS, "seen": seen}))


@pytest.mark.slow
def test_the_posterior_from_parquet_is_that_of_all_rows(tmp_path, differs):
    pa, ds = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.dataset")
    table = pa.table({**ROWS, "year": pa.array(np.arange(N) // 500)})
    options = {"format": "parquet", "partitioning": ["year"], "partitioning_flavor": "hive"}
    ds.write_dataset(table, tmp_path, max_rows_per_file=200, max_rows_per_group=90, **options)
    idata = draw(built(blocks(tmp_path, pool=1_600_000)), 2_000)
    assert not differs(idata)
    usage = pma.data_usage(idata)
    assert usage["total_rows"] == N
    assert usage["full_scans"] == 0


@pytest.mark.slow
def test_a_pool_from_the_head_of_the_table_would_be_seen(differs, monkeypatch):
    """Planted mistake: the first rows, which are the earliest, stand for all."""

    def from_the_head(self, sizes_of, floor, advance):
        slots = self.slots._replace(floor=floor)
        reservoir = Reservoir(slots)
        for number, piece in enumerate(islice(self.pieces(), 3)):
            reservoir.let_in(slots.offer(piece, sizes_of(piece), number, reservoir.keys))
        return reservoir.pool(self.shares)._replace(n_total=len(self))

    monkeypatch.setattr(BlockTable, "weighed", from_the_head)
    assert differs(draw(built(blocks(pool=1_600_000)), 2_000))


@pytest.fixture(scope="module")
def step():
    return built(blocks(pool=160_000))


@pytest.mark.slow
def test_what_is_known_of_all_rows_is_summed_over_the_blocks(step):
    expansion = step.decider.expansion
    design = np.column_stack([ROWS["when"], ROWS["x"], np.ones(N)])
    p = 1 / (1 + np.exp(-design @ expansion.centre))
    np.testing.assert_allclose(expansion.gradient, design.T @ (ROWS["seen"] - p), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(expansion.hessian, -(design.T * (p * (1 - p))) @ design, rtol=1e-9)
    assert step.decider.parts.prepared.passes > 2


@pytest.mark.slow
def test_chains_of_a_pool_share_no_row(step):
    one, two = (draw(step, 150, 50, cores=cores) for cores in (1, 2))
    assert np.array_equal(one.posterior["beta"], two.posterior["beta"])
    used = one.sample_stats["n_rows"].sum("draw")
    assert (used < 80_000).all()
    # Of two chains in one process the second has just run: its rows are those of the second half.
    state = step.chain._row_state
    assert (state.first, state.end) == (80_000, 160_000)
    assert state.drawn[0] >= int(used[-1])


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2])
def test_more_chains_than_the_pool_is_for_are_refused(step, cores):
    with pytest.raises(Exception, match="the pool is shared by 2 chains, and there are more of them"):
        draw(step, 20, 10, cores=cores, chains=3)


@pytest.mark.slow
def test_a_pool_that_is_spent_ends_the_run_and_keeps_its_draws(caplog):
    with caplog.at_level(logging.INFO):
        step = built(blocks(pool=40_000))
    said = re.search(r"shared by 2 chains it is good for about (\d+) draws each, tuning included", caplog.text)
    assert said, caplog.text
    idata = draw(step, 500, 20, chains=1)
    assert 20 < idata.posterior.sizes["draw"] < 90
    assert 20 + idata.posterior.sizes["draw"] == pytest.approx(int(said[1]), rel=0.25)
    assert "rows of the pool for this chain are spent" in caplog.text
    assert "Blocks(..., pool=)" in caplog.text


@pytest.mark.slow
def test_a_run_is_judged_on_the_rows_of_the_pool(step):
    idata = draw(step, 250, 50)
    judged = pma.reliability(idata, SAMPLE, step=step, n_states=30)
    assert judged.verdict != "do not trust", str(judged)
    assert "looked at on the 160,000 rows of the pool" in str(judged)
    usage = pma.data_usage(idata)
    assert usage["total_rows"] == N
    assert usage["setup_passes"] > 2
    decider, everything = as_population(step.decider), model_of(ROWS)
    logp = everything.compile_logp(vars=[everything["seen"]], sum=True, mode="FAST_COMPILE")
    rng, others = np.random.default_rng(2), np.empty(0)
    for theta in decider.parts.prepared.draws[:5]:
        proposed = decider.propose(theta, others, step.chain.state, rng)
        pair = evaluate_pair(decider, proposed)
        ends = [{"beta": t[:2], "level": t[2]} for t in (proposed.theta_new, proposed.theta)]
        known = [decider.density.known_sum(t, others, decider.expansion) for t in (proposed.theta_new, proposed.theta)]
        exact = float(logp(ends[0]) - logp(ends[1])) - (known[0] - known[1])
        assert pair.terms.sum() == pytest.approx(exact, abs=5 * pair.terms.std() * np.sqrt(pair.terms.size))
    idata["sample_stats"]["data_digest"] += 2
    with pytest.raises(ValueError, match="made with other rows than those of the step or of data="):
        pma.reliability(idata, SAMPLE, step=step)


@pytest.mark.slow
def test_other_data_after_the_step_was_built_are_refused():
    with model_of({name: column[::5] for name, column in ROWS.items()}):
        step = pma.PenaltyMH(data=blocks(), progressbar=False)
        pm.set_data({"seen_data": 1 - ROWS["seen"][::5]})
        with pytest.raises(ValueError, match="Its pool was drawn for the data as they were"):
            step.set_rng(1)


REFUSED = {
    "ApproxMH": (pma.ApproxMH, {}, "data= does not go with ApproxMH.*it reads all rows where fewer do not decide"),
    "MHSubLhd": (pma.MHSubLhd, {}, "does not go with MHSubLhd.*rows drawn without replacement"),
    "ExactMH": (pma.ExactMH, {}, "does not go with ExactMH.*every decision reads all rows"),
    "MinibatchMH": (pma.MinibatchMH, {"batch_size": 50}, "does not go with MinibatchMH.*reads all rows"),
    "GroupMH": (pma.GroupMH, {}, "data= does not go with GroupMH.*Sort the table by group.*memory map"),
    "a bound": (pma.MHSS, {"bound": lambda *region: np.ones(N)}, "the rows of data= are never all there"),
    "Langevin": (pma.PenaltyMH, {"proposal": pma.Langevin()}, "proposal=Langevin.*reads rows in a way of its own"),
    "no proxy": (pma.PenaltyMH, {"proxy": None}, "data= needs a proxy"),
    "third order": (pma.PenaltyMH, {"proxy": pma.Taylor(3)}, "first and second order"),
    "another step": (pma.PenaltyMH, {"vars": [SAMPLE["beta"]]}, r"\['level'\] are left to others"),
}


@pytest.mark.parametrize(("kind", "options", "message"), REFUSED.values(), ids=list(REFUSED))
def test_what_cannot_do_with_rows_drawn_beforehand_is_refused(kind, options, message):
    with pytest.raises(ValueError, match=message):
        built(blocks(), kind, **options)


def test_data_that_are_written_into_the_model_are_refused():
    with pm.Model():
        pm.Bernoulli("seen", logit_p=pm.Normal("level"), observed=ROWS["seen"])
        with pytest.raises(ValueError, match="is written into the model.*pm.Data"):
            pma.PenaltyMH(data=blocks(), progressbar=False)


def test_a_likelihood_that_sums_determine_is_refused_for_mhss():
    rng = np.random.default_rng(1)
    with pm.Model():
        x, y = pm.Data("x", rng.normal(size=300)), pm.Data("y", rng.normal(size=300))
        pm.Normal("seen", pm.Normal("slope") * x, pm.HalfNormal("sd"), observed=y)
        with pytest.raises(ValueError, match="sums over the data determine its likelihood.*PenaltyMH"):
            pma.MHSS(data=pma.Blocks({"x": np.zeros(900), "y": np.ones(900)}), progressbar=False)


@pytest.fixture(scope="module")
def exact():
    return built(blocks(pool=400_000), pma.MHSS)


@pytest.mark.slow
def test_mhss_draws_from_a_pool_what_it_draws_from_all_rows(exact, differs):
    idata = draw(exact, 6_000)
    assert not differs(idata)
    read = idata.sample_stats["n_rows"]
    assert 0 < read.mean() == pytest.approx(exact.predicted_rows, rel=0.3)
    assert not idata.sample_stats["full_data"].any()
    assert exact.chain.rows_used < 200_000


@pytest.mark.slow
def test_a_point_beyond_the_bounds_ends_a_run_on_a_pool(exact, caplog):
    chain = Chain(exact.decider, np.random.default_rng(0))
    centre, spread = exact.decider.parts.prepared.normal.centre, np.diag(exact.decider.parts.prepared.normal.factor)
    outcome = chain.transition(centre + 100 * np.abs(spread), np.empty(0), 1.0)
    assert outcome.status == OUT_OF_REACH
    with pytest.raises(SamplingError, match="so far out that the bounds on the rows do not hold"):
        stopped_chain({}, outcome, 0, False, exact.decider.reported)


@pytest.mark.parametrize("bad", [3, -1])
def test_a_group_that_the_model_does_not_have_is_named(bad):
    with pm.Model() as model:
        g, y = pm.Data("g", np.array([0, 1, 2, 1])), pm.Data("y", np.zeros(4))
        pm.Normal("seen", pm.Normal("effect", shape=3)[g], 1, observed=y)
    index = np.tile([0, 1, 2], 100)

    def pieces():
        example = read_model(model, model.value_vars, None, None)
        return list(open_table(pma.Blocks({"g": index, "y": np.zeros(300)}), model, example, False).pieces())

    assert len(pieces()) == 3
    index[201] = bad
    with pytest.raises(ValueError, match=rf"the arrays, row 201: g is {bad}, and effect has 3 entries"):
        pieces()


@pytest.mark.slow
def test_chains_of_mhss_begin_where_rows_of_the_pool_decide():
    """Of twelve parameters, where a start is twice as far out as a draw and bounds end at 2.4 times as far."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 12))
    seen = (rng.random(20_000) < 0.5).astype(int)
    with pm.Model():
        x, y = pm.Data("x", X[:300]), pm.Data("y", seen[:300])
        pm.Bernoulli("o", logit_p=x @ pm.Normal("b", 0, 1, shape=12), observed=y)
        step = pma.MHSS(data=pma.Blocks({"x": X, "y": seen}, pool=20_000), progressbar=False)
    decider = step.decider
    whitened, centre = decider.bound_constants[0], decider.parts.prepared.expansion.centre
    starts = np.array([draw_start(decider, np.random.default_rng(seed)) for seed in range(100)])
    distance = np.linalg.norm((starts - centre) @ whitened.whiten.T, axis=1)
    assert distance.max() < whitened.radius
    assert np.median(distance) > 1.1 * np.sqrt(12)  # further out than a draw
