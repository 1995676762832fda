"""How far the probabilities of clusters can be off because they were sampled."""

from __future__ import annotations

import numpy as np

from hctrellis.posterior.posterior import Posterior


def standard_errors(post: Posterior) -> dict[int, float]:
    """The standard error of each cluster's probability, by mask; empty if they are exact."""
    table = post.cluster_probabilities()
    errors = getattr(table, "errors", None)
    if errors is None:
        return {}
    return dict(zip(table.masks, np.asarray(errors, float).tolist(), strict=True))
