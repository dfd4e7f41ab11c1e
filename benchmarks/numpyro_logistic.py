"""Logistic regression written in NumPyro, and its HMC with energy conserving subsampling, for what runs beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def regression(scale: float = 1.0, subsample: int | None = None) -> Callable[[Any, Any], None]:
    """Return the model of X and y, coefficients N(0, scale²), on all rows or a subsample of them."""
    import numpyro
    import numpyro.distributions as dist

    def model(X: Any, y: Any) -> None:
        beta = numpyro.sample("beta", dist.Normal(0, scale).expand([X.shape[1]]).to_event(1))
        with numpyro.plate("N", X.shape[0], subsample_size=subsample):
            rows, labels = numpyro.subsample(X, event_dim=1), numpyro.subsample(y, event_dim=0)
            numpyro.sample("y", dist.Bernoulli(logits=rows @ beta), obs=labels)

    return model


def hmcecs(model: Callable[[Any, Any], None], centre: Any) -> Any:
    """Return its kernel, with a Taylor proxy at the mode."""
    import jax
    from numpyro.infer import HMCECS, NUTS

    proxy = HMCECS.taylor_proxy({"beta": jax.numpy.asarray(centre)})
    return HMCECS(NUTS(model), num_blocks=10, proxy=proxy)
