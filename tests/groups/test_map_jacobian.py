"""The Jacobian of maps to effects that sum to zero, against linear algebra."""

import numpy as np
import pytest

from pymc_austerity.groups.map_jacobian import log_jacobian_of

N, RNG = 40, np.random.default_rng(3)
#: Orthonormal directions in which effects that sum to zero lie.
FREE = np.linalg.svd(np.ones((1, N)))[2][1:]
STRETCHED = FREE * np.where(np.arange(N) == 7, 1 + 1e-5, 1.0)
SLOPES = np.array([[0.3], [2.0]])


@pytest.mark.parametrize("z", [RNG.normal(size=N - 1), RNG.normal(size=(2, N - 1))], ids=["vector", "table"])
def test_jacobian_of_sums_is_that_of_a_matrix(z):
    slopes = SLOPES[:, 0] if z.ndim == 2 else SLOPES[:1, 0]

    def found(directions):
        def to_effects(point):
            return {"z": (point["z"] * (SLOPES if z.ndim == 2 else slopes)) @ directions + 0.2}

        return log_jacobian_of(to_effects, {"z": 0}, {"z"}, {"z": z})

    matrix = np.kron(np.diag(slopes), FREE.T)
    assert found(FREE) == pytest.approx(np.linalg.slogdet(matrix.T @ matrix)[1] / 2)
    assert np.isnan(found(STRETCHED))  # a planted mistake: one effect is stretched


def test_rows_that_mix_are_no_isometry():
    """Each row alone keeps its length, and both together do not."""

    def to_effects(point):
        return {"z": (np.array([[1.0, 1.0], [0.0, 0.0]]) @ point["z"]) @ FREE}

    assert np.isnan(log_jacobian_of(to_effects, {"z": 0}, {"z"}, {"z": RNG.normal(size=(2, N - 1))}))
