"""Clustering as a layer of PyTorch: log Z over all trees, differentiable in the matrix of pairs.

Three models have an energy that is linear in a matrix w: a tree pays w_ij times a count c_ij that
depends on the tree. So d log Z / d w_ij is -beta times the expected count, which `Posterior` knows
exactly, and that is the backward pass here. Matrices may be stacked, (..., n, n): all have the same
n, and threads share them. Everything is computed in double precision on the CPU, whatever the type
and the device of the tensors.

============= ============================ ====================================================
model         the matrix                   count c_ij
============= ============================ ====================================================
"dasgupta"    similarities                 leaves of the smallest cluster with i and j
"average"     distances                    1 / (|L| |R|) for the split that parts i and j
"correlation" affinities (> 0 and < 0)     w_ij > 0: 1; else minus the number of clusters below the
                                           root with i and j
============= ============================ ====================================================

The matrix is taken as (w + w^T) / 2, and its diagonal is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from hctrellis.clusters import n_splits
from hctrellis.posterior.gradient import TreePairs
from hctrellis.potentials.correlation import CorrelationClustering
from hctrellis.potentials.dasgupta import Dasgupta
from hctrellis.potentials.linkage import Linkage
from hctrellis.support.checks import as_labels
from hctrellis.support.threads import default_threads
from hctrellis.tree import Tree
from hctrellis.trellis.averages import SolvedPairs
from hctrellis.trellis.full import FullTrellis

try:
    import torch
except ImportError:
    raise ImportError('hctrellis.torch needs PyTorch: pip install "hctrellis[torch]"') from None

if TYPE_CHECKING:
    from hctrellis.potentials.base import Potential
    from hctrellis.support.types import FloatArray

__all__ = ["log_partition", "marginals", "tree_nll"]

Model = Literal["dasgupta", "average", "correlation"]
FEW_SPLITS = 10_000  # up to 9 leaves: no more than this are listed, without compiling anything
STEP = 1e-3  # of the argument of an expected count, for its derivative
STENCIL = ((1, 8 / 12), (2, -1 / 12))  # central differences; their error is of fourth order


def log_partition(
    similarity: torch.Tensor, model: Model = "dasgupta", beta: float | torch.Tensor = 1.0
) -> torch.Tensor:
    """log Z: the log of the sum of exp(-beta energy) over all trees.

    Parameters
    ----------
    similarity : Tensor, shape (..., n, n)
        The matrix of the model: similarities, distances or affinities.
    model : {"dasgupta", "average", "correlation"}
    beta : float or Tensor of one number
        Inverse temperature, > 0; may be learned.

    Returns
    -------
    Tensor, shape (...)
        Differentiable in the matrix and in beta, any number of times. (A second derivative is
        found by central differences of the exact first one, and right to about 1e-9.)

    Examples
    --------
    >>> import torch
    >>> w = torch.tensor([[0.0, 2.0, 1.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]], requires_grad=True)
    >>> log_z = log_partition(w)
    >>> log_z.backward()
    >>> round(log_z.item(), 4), round(float(w.grad[0, 1] + w.grad[1, 0]), 4)
    (-9.4486, -2.4239)
    """
    return _apply(_LogPartition, similarity, model, beta)


def marginals(
    similarity: torch.Tensor, model: Model = "dasgupta", beta: float | torch.Tensor = 1.0
) -> torch.Tensor:
    """The expected count of every pair: how much of w_ij a tree pays, on average.

    For "dasgupta" that is the expected number of leaves of the smallest cluster that has both, and
    for the others see the table of `hctrellis.torch`. It is -1 / beta times the derivative of log Z
    by the value of the pair.

    Parameters
    ----------
    similarity, model, beta
        As for `log_partition`.

    Returns
    -------
    Tensor, shape (..., n, n)
        Symmetric, with zeros on the diagonal; differentiable.

    Examples
    --------
    >>> import torch
    >>> marginals(torch.zeros(3, 3))[0]
    tensor([0.0000, 2.6667, 2.6667])
    """
    return _apply(_Counts, similarity, model, beta)


def tree_nll(
    similarity: torch.Tensor,
    trees: Tree | Sequence[Tree],
    model: Model = "dasgupta",
    beta: float | torch.Tensor = 1.0,
    *,
    labels: Iterable[object] | None = None,
) -> torch.Tensor:
    """The exact negative log likelihood of observed trees: log Z + beta times their energy.

    Parameters
    ----------
    similarity, model, beta
        As for `log_partition`.
    trees : Tree or sequence of Tree
        One tree for all matrices, or one for each of a stack of shape (m, n, n).
    labels : iterable of str, optional
        What the trees call the rows; "0", "1", ... by default.

    Returns
    -------
    Tensor, shape (...)

    Examples
    --------
    All three trees of three leaves are equally likely if nothing is similar.

    >>> import torch
    >>> import hctrellis as hct
    >>> round(float(tree_nll(torch.zeros(3, 3), hct.Tree.from_nested(((0, 1), 2)))), 4)
    1.0986
    """
    matrix = _checked(similarity, model)
    names = as_labels(labels, matrix.shape[-1])
    stack = matrix.detach().reshape((-1, *matrix.shape[-2:])).to("cpu", torch.float64).numpy()
    given = [trees] * len(stack) if isinstance(trees, Tree) else list(trees)
    if len(given) != len(stack):
        raise ValueError(f"{len(given)} trees were given for {len(stack)} matrices; give one each")
    counts = [_tree_counts(w, tree, model, names) for w, tree in zip(stack, given, strict=True)]
    paid = torch.as_tensor(np.array(counts), dtype=torch.float64, device=matrix.device)
    energy = (matrix.double() * paid.reshape(matrix.shape)).sum(dim=(-2, -1)) / 2
    return log_partition(similarity, model, beta) + (beta * energy).to(matrix.dtype)


# ---- what goes in -----------------------------------------------------------------------------


def _checked(similarity: torch.Tensor, model: str) -> torch.Tensor:
    if model not in get_args(Model):
        raise ValueError(f"model must be one of {', '.join(get_args(Model))}; got {model!r:.80}")
    if not isinstance(similarity, torch.Tensor) or not similarity.is_floating_point():
        kind = getattr(similarity, "dtype", type(similarity).__name__)
        raise TypeError(f"similarity must be a tensor of floats; got {kind}")
    if similarity.ndim < 2 or similarity.shape[-1] != similarity.shape[-2]:
        raise ValueError(
            "similarity must have the shape (n, n), or (..., n, n) for many matrices; got "
            f"{tuple(similarity.shape)}"
        )
    if similarity.shape[-1] == 0:
        raise ValueError("similarity is empty; at least one leaf is needed")
    if not torch.isfinite(similarity).all():
        raise ValueError("similarity has entries that are not finite; log Z is not defined then")
    return similarity


def _apply(function: Any, similarity: torch.Tensor, model: str, beta: Any) -> torch.Tensor:
    """Apply an autograd function to a stack of matrices in double precision."""
    matrix = _checked(similarity, model)
    heat = torch.as_tensor(beta, dtype=torch.float64, device="cpu")
    if heat.numel() != 1 or not 0 < heat.item() < np.inf:
        raise ValueError(f"beta must be one finite number, positive; got {beta!r:.80}")
    stack = matrix.reshape((-1, *matrix.shape[-2:])).to("cpu", torch.float64)
    found = function.apply(stack, heat.reshape(()), model)
    shaped = found.reshape((*matrix.shape[:-2], *found.shape[1:]))
    result: torch.Tensor = shaped.to(matrix.device, matrix.dtype)
    return result


def _potential(w: FloatArray, model: str, beta: float) -> Potential:
    """A model of a matrix, which may be any: distances may be negative, affinities all positive."""
    pairs = (w + w.T) / 2
    np.fill_diagonal(pairs, 0.0)
    if model == "average":
        linkage = Linkage(np.zeros_like(pairs), "average", beta, "precomputed")
        linkage.distances = pairs
        return linkage
    if model == "dasgupta":
        return Dasgupta(pairs, beta)
    known = CorrelationClustering(np.eye(len(pairs)) - 1.0, beta)
    known.affinity = pairs
    return known


def _tree_counts(w: FloatArray, tree: Tree, model: str, labels: tuple[str, ...]) -> FloatArray:
    potential = _potential(w, model, 1.0)
    potential.labels = labels
    energy = potential.pair_energy(TreePairs(potential.align(tree)))
    assert energy is not None
    return energy.counts


# ---- passes over stacks -----------------------------------------------------------------------


def _log_partition(w: FloatArray, model: str, beta: float) -> float:
    return FullTrellis(len(w)).solve(_potential(w, model, beta), 1).log_partition


def _counts(w: FloatArray, model: str, beta: float) -> FloatArray:
    potential = _potential(w, model, beta)
    if len(w) == 1:
        return np.zeros((1, 1))
    solution = FullTrellis(len(w)).solve(potential, 1)
    often = n_splits(len(w)) > FEW_SPLITS
    energy = potential.pair_energy(SolvedPairs(solution, often))
    assert energy is not None
    return energy.counts


def _for_each(function: Any, stack: FloatArray, model: str, beta: float) -> torch.Tensor:
    """A function of every matrix of a stack, by some threads."""
    workers = min(default_threads(), len(stack))
    if workers > 1:
        with ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(lambda w: function(w, model, beta), stack))
    else:
        found = [function(w, model, beta) for w in stack]
    shape = (0, *stack.shape[1:]) if function is _counts else (0,)
    return torch.as_tensor(np.array(found)) if found else torch.zeros(shape, dtype=torch.float64)


class _LogPartition(torch.autograd.Function):
    """log Z of each matrix of a stack."""

    @staticmethod
    def forward(ctx: Any, w: torch.Tensor, beta: torch.Tensor, model: str) -> torch.Tensor:
        ctx.save_for_backward(w, beta)
        ctx.model = model
        return _for_each(_log_partition, w.detach().numpy(), model, beta.item())

    @staticmethod
    def backward(ctx: Any, *outputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        w, beta = ctx.saved_tensors
        counts = _Counts.apply(w, beta, ctx.model)
        (grad,) = outputs
        energy = (w * counts).sum(dim=(-2, -1)) / 2
        return -beta / 2 * counts * grad[:, None, None], -(grad * energy).sum(), None


class _Counts(torch.autograd.Function):
    """The expected counts of the pairs of each matrix of a stack."""

    @staticmethod
    def forward(ctx: Any, w: torch.Tensor, beta: torch.Tensor, model: str) -> torch.Tensor:
        ctx.save_for_backward(w, beta)
        ctx.model = model
        return _for_each(_counts, w.detach().numpy(), model, beta.item())

    @staticmethod
    def backward(ctx: Any, *outputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Counts are a gradient, so the matrix of their derivatives is symmetric.

        Its product with a vector is the derivative of the counts in that direction.
        """
        w, beta = ctx.saved_tensors
        along = outputs[0] + outputs[0].transpose(-2, -1)
        along = along - torch.diag_embed(torch.diagonal(along, dim1=-2, dim2=-1))
        size = (along.abs().amax(dim=(-2, -1)) * beta).clamp(min=1e-300)
        step = (STEP / size)[:, None, None]
        change = torch.zeros_like(w)
        for places, factor in STENCIL:
            above = _Counts.apply(w + places * step * along, beta, ctx.model)
            below = _Counts.apply(w - places * step * along, beta, ctx.model)
            change = change + factor * (above - below)
        change = change / step
        by_beta = (w * change).sum() / (2 * beta)
        return change / 2, by_beta, None
