"""Files that are added to the folder of a table: what is learnt from these alone is what all files say."""

import numpy as np
import pymc as pm
import pytest
from draws_at_hand import run_of
from toy import sampled
from weighing import SizesOf

import pymc_austerity as pma
from pymc_austerity.blocks import Container, grown_table, passes, table
from pymc_austerity.blocks.columns import Reader
from pymc_austerity.diagnostics.results import group

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N = 3_000
RNG = np.random.default_rng(43)
X = RNG.normal(size=8 * N)
SEEN = (RNG.random(8 * N) < 1 / (1 + np.exp(-1.0 - X))).astype(int)


EACH = {"rows": 100, "random_seed": 1, "progressbar": False}


def model_of(n):
    with pm.Model() as model:
        x, seen = pm.Data("x", X[:n]), pm.Data("seen", SEEN[:n])
        pm.Bernoulli("y", logit_p=pm.Normal("a") + pm.Normal("b") * x, observed=seen)
    return model


def total(found):
    """Return the estimate, under ArviZ 0.x and 1.x."""
    return float(found["elpd_loo" if hasattr(found, "index") else "elpd"])


def put(folder, name, start, stop):
    pq.write_table(pa.table({"x": X[start:stop], "seen": SEEN[start:stop]}), folder / f"{name}.parquet")


class Size(SizesOf):
    """Sizes that are bounds too."""

    def sizes_of(self, rows):
        return self(rows)


def table_of(folder):
    containers = [Container("x", np.dtype(float), ())]
    found = pma.Blocks(folder, pool=1_000, chains=2).table(containers, {}, lambda arrays: None, False)
    found.samples([np.arange(100)])
    return found


def of_pool(pool):
    """Return the rows of a pool and what each counts for; rows that are read always lie in another order."""
    rows, counts = (pool.rows, pool.weight) if hasattr(pool, "rows") else (pool[1], pool[0].size)
    order = np.lexsort((counts, rows.arrays[0]))
    return rows.arrays[0][order], counts[order]


@pytest.mark.parametrize("kind", ["weighed", "bounded"])
def test_a_pool_goes_on_as_if_there_had_been_one_pass(kind, tmp_path, monkeypatch):
    """With parts of a file each the slots hold the same rows and weights; with parts numbered anew others."""
    monkeypatch.setattr(passes, "PIECE", N)
    draw = (lambda of: of.weighed(Size(), 0.1)) if kind == "weighed" else (lambda of: of.bounded(Size(), 0.4))
    for k in range(2):
        put(tmp_path, k, k * N, (k + 1) * N)
    before, twice = table_of(tmp_path), table_of(tmp_path)
    for of in (before, twice):
        draw(of)
    put(tmp_path, 2, 2 * N, 3 * N)
    pools, offered = [], table.Slots.offer
    whole = of_pool(draw(table_of(tmp_path)))
    for of in (before, twice):
        grown = grown_table(of, (), None)
        grown.samples([np.arange(100)])
        pools.append(of_pool(draw(grown)))
        assert len(grown) == 3 * N
        # Control: the parts numbered anew.
        anew = lambda slots, rows, sizes, number, limits: offered(slots, rows, sizes, number - 2, limits)  # noqa: E731
        monkeypatch.setattr(table.Slots, "offer", anew)
    rest, other = pools
    for found, expected in zip(rest, whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert not np.allclose(other[0], whole[0])


@pytest.mark.slow
def test_draws_are_those_of_all_files(tmp_path):
    """Twice as many rows by a second file: means within 4.5 Monte Carlo errors, where those of one file are not."""
    put(tmp_path, "b", 0, N)
    with model_of(200) as model:
        steps = [pma.PenaltyMH(data=pma.Blocks(tmp_path, pool=300_000, chains=2), progressbar=False) for _ in range(2)]
        before = steps[0].decider.parts.prepared.kept.psi
        assert steps[0].read_added_files() == 0
        put(tmp_path, "a", N, 2 * N)  # in front of the other
        assert steps[0].read_added_files() == N
        assert steps[0].decider.n_table == 2 * N
        np.testing.assert_array_equal(steps[0].decider.parts.prepared.kept.psi, before)
        assert steps[0].model_key.data != steps[1].model_key.data
        anew = pma.PenaltyMH(data=pma.Blocks(tmp_path, pool=300_000, chains=2), progressbar=False)
        runs = [sampled(model, step, 500, tune=100, seed=1) for step in (steps[0], anew, steps[1])]
    with pytest.raises(ValueError, match="made with other rows than those of the step or of data="):
        pma.loo(runs[0], model, step=anew, progressbar=False)
    by_step = pma.loo(runs[0], model, step=steps[0], **EACH)
    whole = model_of(2 * N)
    of_files = np.r_[N : 2 * N, 0:N]  # by their names
    pm.set_data({"x": X[of_files], "seen": SEEN[of_files]}, model=whole)
    in_memory = pma.loo(run_of(posterior=group(runs[0], "posterior")), whole, **EACH)
    assert total(by_step) == pytest.approx(total(in_memory), rel=1e-9)
    grown, whole, first = (group(run, "posterior")["a"] for run in runs)
    error = float(whole.std()) * np.sqrt(2 / 400)  # of means of 400 effective draws at least
    assert abs(float(grown.mean() - whole.mean())) < 4.5 * error
    assert float(grown.std() / whole.std()) == pytest.approx(1, abs=0.2)
    assert float(first.std() / whole.std()) > 1.25
    put(tmp_path, "b", 0, N // 2)
    with pytest.raises(ValueError, match="is not what it was when its rows were read"):
        steps[0].read_added_files()


@pytest.mark.slow
def test_a_folder_that_doubles_five_times(tmp_path, monkeypatch):
    """New files alone are read, three times, where the expansion stays."""
    n, read = 500, []
    rows_of, options = Reader.rows, {"pool": 200_000, "chains": 2}
    monkeypatch.setattr(
        Reader, "rows", lambda self, part, known=False: read.append(part.n_rows) or rows_of(self, part, known)
    )
    put(tmp_path, 0, 0, n)
    with model_of(200):
        growing = pma.MHSS(data=pma.Blocks(tmp_path, **options), progressbar=False)
        stayed = 0
        for k in range(5):
            put(tmp_path, k + 1, n * 2**k, n * 2 ** (k + 1))
            read.clear()
            before = growing.decider.parts.prepared.kept.psi
            assert growing.read_added_files() == n * 2**k
            if np.array_equal(growing.decider.parts.prepared.kept.psi, before):
                assert read == [n * 2**k] * 3
                stayed += 1
    assert stayed >= 3


@pytest.mark.slow
def test_files_that_move_the_posterior_far_are_said(tmp_path, caplog):
    """All files are learnt from anew, and the posterior is that of all."""
    put(tmp_path, 0, 0, N)
    with model_of(200), caplog.at_level("INFO", "pymc_austerity"):
        step = pma.PenaltyMH(data=pma.Blocks(tmp_path, pool=50_000, chains=2), progressbar=False)
        others = pa.table({"x": -X[: 2 * N], "seen": SEEN[: 2 * N]})
        pq.write_table(others, tmp_path / "1.parquet")
        assert step.read_added_files() == 2 * N
    assert f"{2 * N:,} rows were added to {N:,}: the posterior has moved by" in caplog.text
    assert step.decider.n_table == 3 * N
    assert step.decider.parts.prepared.kept.psi[1] < 0


@pytest.mark.slow
def test_what_has_no_files_is_refused(tmp_path):
    with model_of(200):
        step = pma.PenaltyMH(progressbar=False)
    with pytest.raises(ValueError, match="built without data="):
        step.read_added_files()
    for source in ({"x": X}, pa.table({"x": X})):
        with pytest.raises(ValueError, match="this source is none that was given by its path. Build the step again"):
            table_of(source).passes.files.added()
