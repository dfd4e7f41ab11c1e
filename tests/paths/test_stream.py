import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_austerity.paths import ReplicationError
from pymc_austerity.paths.block_reader import BlockReader, StreamEndedError
from pymc_austerity.paths.stream import debias_stream

SHRINK, MEAN = 200.0, 3.0


def posterior_mean(x):
    return x.sum() / (len(x) + SHRINK)


def stream(seed, blocks=10_000, length=700):
    rng = np.random.default_rng(seed)
    return (rng.normal(MEAN, 2, length) for _ in range(blocks))


def run(batches=None, phi=posterior_mean, **settings):
    defaults = {
        "n_max": 1_000, "min_batch": 20, "alpha": 0.5, "replications": 400, "random_seed": 1, "progressbar": False,
    }  # fmt: skip
    return debias_stream(stream(0) if batches is None else batches, phi, **(defaults | settings))


@pytest.mark.slow
def test_unbiased_for_n_max_rows():
    results = [run(stream(seed), random_seed=seed) for seed in range(30)]
    estimate, error = (np.array([float(r[name][-1]) for r in results]) for name in ("estimate", "standard_error"))

    def score(target):
        return abs(((estimate - target) / error).mean() * np.sqrt(len(results)))

    assert score(1_000 * MEAN / (1_000 + SHRINK)) < 3.9
    # Negative controls: the endless stream's posterior mean, and that of half n_max.
    assert score(MEAN) > 3.9
    assert score(500 * MEAN / (500 + SHRINK)) > 3.9


@pytest.mark.slow
def test_the_remaining_bias_is_described():
    result = run(n_max=8_000, min_batch=100, alpha=0.5, replications=6_000, batches=stream(4, length=10_000))
    left = 8_000 * MEAN / (8_000 + SHRINK) - MEAN
    assert abs(result.remaining_bias - left) < 4 * result.remaining_bias_error
    assert abs(result.remaining_bias) > 4 * result.remaining_bias_error
    assert "8000" in result.attrs["remaining_bias_reason"]


def test_every_row_is_used_once_and_in_order():
    seen = []

    def phi(x):
        seen.append(x.copy())
        return 0.0

    result = run(iter([np.arange(k, k + 137) for k in range(0, 50_000, 137)]), phi, replications=60)
    position, ends = 0, []
    for level in result.level.values:
        path = seen[: int(level)]
        del seen[: int(level)]
        for part in path:
            np.testing.assert_array_equal(part, np.arange(position, position + len(part)))
        position += len(path[-1])
        ends.append(position)
    assert result.attrs["rows_read"] == position
    assert not seen


def test_tuples_of_arrays_stay_together():
    rng = np.random.default_rng(0)
    blocks = ((x, 2 * x) for x in (rng.normal(size=(300, 2)) for _ in range(1_000)))

    def phi(rows):
        x, y = rows
        assert len(x) == len(y)
        return np.linalg.lstsq(x, y, rcond=None)[0].ravel()

    result = run(blocks, phi, replications=20)
    np.testing.assert_allclose(result.estimate[-1], [2, 0, 0, 2], atol=1e-9)


def test_auto_alpha_reads_its_pilot_from_the_stream():
    with pytest.warns(UserWarning, match="rate is not clearly positive"):  # the prior is worth more than the batches
        result = run(alpha="auto", replications=10, n_max=10_000)
    assert result.attrs["pilot_rows"] == 24 * 620
    assert result.attrs["rows_read"] > 24 * 320
    assert "β" in result.attrs["alpha_reason"]


def test_same_stream_and_seed_same_result():
    np.testing.assert_array_equal(run(stream(3)).replicate, run(stream(3)).replicate)
    noisy = [run(stream(3), lambda x, rng: rng.normal(), replications=20).replicate for _ in range(2)]
    np.testing.assert_array_equal(*noisy)


def test_a_stream_that_ends_gives_what_there_is():
    with pytest.warns(UserWarning, match="stream ended") as warned:
        result = run(stream(0, blocks=20), replications=None)
    assert warned[0].filename == __file__
    assert result.attrs["stopped"] == "stream ended"
    assert result.sizes["replication"] > 10
    with pytest.warns(UserWarning, match="stream ended"):
        assert run(stream(0, blocks=20), replications=10_000).sizes["replication"] < 1_000


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batches": iter([])}, "first replication"),
        ({"batches": iter([np.ones(30)]), "alpha": "auto"}, "pilot"),
        ({"n_max": 10}, "min_batch must be between 1 and 10, the n_rows of debias or the n_max of debias_stream"),
        ({"n_max": 1000.5}, "n_max=1000.5 must be a whole number"),
    ],
)
def test_bad_arguments_are_refused(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        run(**settings)


def test_bad_types_are_refused_before_a_row_is_read():
    rows = iter([np.ones(1_000)])
    with pytest.raises(TypeError, match="phi=3.0 must be a function"):
        run(rows, 3.0)
    assert len(list(rows)) == 1
    with pytest.raises(TypeError, match="batches must be an iterable .* found int"):
        run(3)


@pytest.mark.parametrize(
    ("blocks", "shapes"),
    [
        ([(np.ones(5), np.ones(4))], r"\[\(5,\), \(4,\)\]"),
        ([(np.ones(2_000), np.ones(2_000)), np.ones(2_000)], r"\[\(2000,\)\]"),
        (np.ones(50), r"\[\(\)\]"),
    ],
)
@pytest.mark.parametrize("alpha", [0.5, "auto"])
def test_blocks_must_fit_together(blocks, shapes, alpha):
    with pytest.raises(ReplicationError, match=f"same number of arrays.*same length.*found shapes {shapes}") as caught:
        run(blocks, lambda rows: 0.0, alpha=alpha, n_max=2_000)
    assert "phi failed" not in str(caught.value)


def test_an_error_of_the_stream_is_not_laid_at_the_door_of_phi():
    def blocks():
        yield np.ones(2_000)
        raise OSError("disk gone")

    with pytest.raises(ReplicationError, match="The stream failed after .* rows: OSError: disk gone") as caught:
        run(blocks())
    assert caught.value.finished.sizes["replication"] > 3
    assert caught.value.finished.attrs["stopped"] == "stream failed"
    with pytest.raises(ReplicationError, match="In the pilot .* OSError: disk gone"):
        run(blocks(), alpha="auto")


def test_errors_of_phi_are_explained():
    for where, settings in (("", {}), ("In the pilot for alpha='auto': ", {"alpha": "auto"})):
        with pytest.raises(ReplicationError, match=f"^{where}phi failed in replication 0: ZeroDivisionError"):
            run(phi=lambda x: 1 / 0, **settings)
    with pytest.raises(ReplicationError, match="shape must not depend on the rows"):
        run(phi=lambda x: x)


def test_no_bias_is_claimed_from_too_few_paths():
    with pytest.warns(UserWarning, match="which none of 2 replications reached"):
        result = run(replications=2)
    assert np.isnan(result.remaining_bias)
    assert "too few" in result.attrs["remaining_bias_reason"]


def cut(array, sizes):
    return np.split(array, np.cumsum(sizes)[:-1]) if sizes else []


@given(st.lists(st.integers(0, 12), max_size=12), st.lists(st.integers(1, 12), min_size=1, max_size=8))
def test_rows_come_once_and_in_order_whatever_the_blocks(sizes, counts):
    rows = np.arange(sum(sizes))
    single, pairs = BlockReader(cut(rows, sizes)), BlockReader(zip(cut(rows, sizes), cut(np.c_[rows, -rows], sizes)))
    position = 0
    for count in counts:
        expected = rows[position : position + count]
        if len(expected) < count:
            for reader in (single, pairs):
                with pytest.raises(StreamEndedError):
                    reader.take(count)
                assert (reader.rows_read, reader.cut) == (position, len(expected))
            return
        np.testing.assert_array_equal(single.take(count), expected)
        first, second = pairs.take(count)
        np.testing.assert_array_equal(first, expected)
        np.testing.assert_array_equal(second, np.c_[expected, -expected])
        position += count
        assert single.rows_read == pairs.rows_read == position


def test_no_more_blocks_are_read_than_needed():
    blocks = iter([np.arange(5), np.arange(5), np.arange(5)])
    BlockReader(blocks).take(6)
    assert len(list(blocks)) == 1
