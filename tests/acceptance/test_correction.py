"""The correction distribution: how close to logistic it gets, and its copy on disk."""

import io
import resource

import numpy as np
import platformdirs
import pytest
from scipy import special, stats

from pymc_austerity.acceptance import correction as module
from pymc_austerity.acceptance.correction import correction, solve_correction, sup_error


@pytest.fixture
def cache_folder(tmp_path, monkeypatch):
    """A cache folder of this test's own, and nothing remembered from before."""
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "caches" / name))
    correction.cache_clear()
    yield tmp_path / "caches" / "pymc-austerity"
    correction.cache_clear()


@pytest.mark.parametrize(("sigma", "limit"), [(0.5, 1e-8), (0.8, 1e-8), (1.0, 1e-7), (1.2, 3e-5), (1.5, 3e-3)])
def test_normal_plus_correction_is_logistic(sigma, limit):
    """The paper reports 6.7e-6 at σ = 0.8 and 9e-4 at σ = 1."""
    found = solve_correction(sigma)
    assert found.error < limit
    probabilities = np.diff(found.cumulative, prepend=0.0)
    y = np.random.default_rng(1).uniform(-25, 25, 500)  # off the grid of the solution
    sums = stats.norm.cdf(y[:, None], found.atoms, sigma) @ probabilities
    assert np.abs(sums - special.expit(y)).max() <= found.error
    assert (probabilities > 0).all()
    assert found.atoms == pytest.approx(-found.atoms[::-1])
    assert (np.diff(found.atoms) >= 0).all()


def test_the_stored_error_tells_a_wrong_distribution():
    found = solve_correction(1.0)
    probabilities = np.diff(found.cumulative, prepend=0.0)
    assert sup_error(1.01 * found.atoms, probabilities, 1.0) > 1e4 * found.error


def test_it_is_computed_once_and_read_from_disk_afterwards(cache_folder, monkeypatch):
    first = correction(0.7)
    (file,) = cache_folder.iterdir()
    correction.cache_clear()
    monkeypatch.delattr(module.optimize, "nnls")
    second = correction(0.7)
    assert all(np.array_equal(a, b) for a, b in zip(first, second))
    assert file.suffix == ".npz"


def written(path, **changed):
    """Write the file again with other values, and its digest as it was."""
    with np.load(path) as stored:
        kept = {**{name: stored[name] for name in stored.files}, **changed}
    np.savez(path, **kept)


DAMAGES = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "empty": lambda path: path.write_bytes(b""),
    "an npy": lambda path: path.write_bytes(npy(np.arange(3.0))),
    "a flipped bit": lambda path: path.write_bytes(bytes(b ^ (i == 700) for i, b in enumerate(path.read_bytes()))),
    "sigma as a vector": lambda path: written(path, sigma=np.array([0.7, 0.7])),
    "another sigma": lambda path: written(path, sigma=np.array(0.8)),
    "fewer atoms": lambda path: written(path, atoms=np.zeros(3)),
    "NaN": lambda path: written(path, cumulative=np.full(96, np.nan)),
    "strings": lambda path: written(path, atoms=np.array(["a", "b"])),
    "objects": lambda path: np.savez(path, sigma=np.array([None])),
    "a smaller error": lambda path: written(path, error=np.array(1e-300)),
    "atoms elsewhere": lambda path: written(path, atoms=np.linspace(-1, 1, 96)),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.fixture(scope="module")
def right():
    return solve_correction(0.7)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_computed_anew(cache_folder, caplog, monkeypatch, damage, right):
    monkeypatch.setattr(module, "solve_correction", lambda sigma: right)
    correction(0.7)
    (file,) = cache_folder.iterdir()
    damage(file)
    correction.cache_clear()
    assert all(np.array_equal(a, b) for a, b in zip(correction(0.7), right, strict=True))
    assert "cannot be read" in caplog.text
    correction.cache_clear()
    caplog.clear()
    if file.is_file():
        monkeypatch.delattr(module, "solve_correction")
        assert all(np.array_equal(a, b) for a, b in zip(correction(0.7), right, strict=True))
        assert not caplog.text
    assert list(cache_folder.iterdir()) == [file]


def test_a_disk_without_room_leaves_no_file(cache_folder, right):
    cache_folder.mkdir(parents=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        module._write(cache_folder / "kept.npz", right)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(cache_folder.iterdir())


def test_a_folder_that_cannot_be_made_is_no_obstacle(cache_folder):
    cache_folder.parent.mkdir()
    cache_folder.write_text("a file where the folder should be")
    assert correction(0.7).error < 1e-8
