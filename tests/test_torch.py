"""Clustering as a layer: log Z, expected counts and likelihoods of trees, and their derivatives."""

import importlib
import math
import sys
import time

import numpy as np
import pytest

import hctrellis as hct
import naive
from gallery import affinities, as_tree, points, similarities

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from hctrellis.torch import log_partition, marginals, tree_nll  # noqa: E402

MODELS = {
    "dasgupta": hct.Dasgupta,
    "average": lambda w, beta: hct.Linkage(w, "average", beta, "precomputed"),
    "correlation": hct.CorrelationClustering,
}
models = pytest.mark.parametrize("model", MODELS)


def matrices(model, n, size=1, seed=0):
    """Matrices as the model takes them, not symmetric, with anything on the diagonal."""
    rng = np.random.default_rng(seed)
    shift = 1.0 if model == "correlation" else 0.0
    return torch.tensor(2 * rng.random((size, n, n)) - shift)


def pairs(w):
    """A matrix as it is used: its symmetric part without the diagonal."""
    found = ((w + w.T) / 2).numpy().copy()
    np.fill_diagonal(found, 0.0)
    return found


# ---- values -----------------------------------------------------------------------------------


@models
@pytest.mark.parametrize("n", [1, 2, 5])
def test_log_partition(model, n):
    stack = matrices(model, n, 3, seed=n)
    wanted = [hct.infer(MODELS[model](pairs(w), 0.7)).log_partition for w in stack]
    assert log_partition(stack, model, 0.7).tolist() == pytest.approx(wanted, abs=1e-12)


@models
def test_marginals_are_expected_counts(model):
    """Against the definition, over all trees, by the oracle."""
    w = matrices(model, 4, seed=2)[0]
    known = pairs(w)
    trees = naive.listing(4, _psi(model, known))
    counts = np.zeros((4, 4))
    for clusters, weight in trees:
        p = math.exp(weight - naive.log_partition(trees))
        for i, j in ((i, j) for i in range(4) for j in range(4) if i != j):
            counts[i, j] += p * _paid(model, known, clusters, i, j)
    np.testing.assert_allclose(marginals(w, model), counts, atol=1e-12)


def _psi(model, w):
    if model == "average":
        return naive.from_distances(naive.mean, w)
    return {"dasgupta": naive.dasgupta, "correlation": naive.correlation_clustering}[model](w)


def _paid(model, w, clusters, i, j):
    """How much of w_ij a tree pays."""
    with_both = sorted((c for c in clusters if {i, j} <= c), key=len)
    if model == "dasgupta":
        return len(with_both[0])
    if model == "correlation":
        return 1 if w[i, j] > 0 else 1 - len(with_both)
    inside = [c for c in (*clusters, frozenset([i])) if i in c and c < with_both[0]]
    part = len(max(inside, key=len))
    return 1 / (part * (len(with_both[0]) - part))


@models
def test_likelihood_of_trees(model):
    stack = matrices(model, 5, 2, seed=4)
    posts = [hct.infer(MODELS[model](pairs(w), 1.5)) for w in stack]
    trees = [post.sample(1, rng=0)[0] for post in posts]
    wanted = [-post.log_probability(tree) for post, tree in zip(posts, trees, strict=True)]
    assert tree_nll(stack, trees, model, 1.5).tolist() == pytest.approx(wanted, abs=1e-10)
    one = tree_nll(stack, trees[0], model, 1.5)[1]
    assert float(one) == pytest.approx(-posts[1].log_probability(trees[0]), abs=1e-10)


def test_likelihoods_of_all_trees_sum_to_one():
    w = torch.tensor(similarities(5))
    trees = [as_tree(clusters, 5) for clusters, _ in naive.listing(5, naive.constant(0.0))]
    total = sum(math.exp(-float(tree_nll(w, tree))) for tree in trees)
    assert total == pytest.approx(1, abs=1e-12)


def test_labels_of_trees():
    w = torch.tensor(similarities(3))
    plain = hct.Tree.from_nested(((1, 2), 0))
    named = hct.Tree.from_nested((("b", "c"), "a"))
    assert tree_nll(w, named, labels="abc") == tree_nll(w, plain)
    with pytest.raises(ValueError, match="labels differ"):
        tree_nll(w, named)


def test_shapes_and_types():
    w = matrices("dasgupta", 4, 6)
    many = log_partition(w.reshape(2, 3, 4, 4))
    assert many.shape == (2, 3)
    assert many.flatten().tolist() == log_partition(w).tolist()
    assert marginals(w.reshape(2, 3, 4, 4)).shape == (2, 3, 4, 4)
    assert log_partition(w[0]).shape == ()
    assert log_partition(w[:0]).shape == (0,)
    assert marginals(w[:0]).shape == (0, 4, 4)
    single = w.float().requires_grad_()
    found = log_partition(single).sum()
    found.backward()
    assert found.dtype == single.grad.dtype == torch.float32


# ---- derivatives ------------------------------------------------------------------------------


@models
def test_gradients(model):
    w = matrices(model, 4, 2, seed=3).requires_grad_()
    beta = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    tree = hct.Tree.from_nested(((0, 1), (2, 3)))
    assert torch.autograd.gradcheck(lambda w, b: log_partition(w, model, b), (w, beta))
    assert torch.autograd.gradcheck(lambda w, b: marginals(w, model, b), (w, beta))
    assert torch.autograd.gradcheck(lambda w, b: tree_nll(w, tree, model, b), (w, beta))
    assert torch.autograd.gradgradcheck(lambda w, b: log_partition(w, model, b), (w, beta))


@models
def test_gradient_is_minus_beta_times_marginals(model):
    w = matrices(model, 6, 3).requires_grad_()
    log_partition(w, model, 0.8).sum().backward()
    both = w.grad + w.grad.transpose(-2, -1)
    np.testing.assert_allclose(both, -0.8 * marginals(w, model, 0.8).detach(), atol=1e-12)


def test_second_derivatives_are_accurate():
    """Of three leaves by hand: Z = sum of e^(-cost), the Hessian is a covariance."""
    w = torch.tensor(similarities(3)).requires_grad_()
    (first,) = torch.autograd.grad(log_partition(w), w, create_graph=True)
    (second,) = torch.autograd.grad(first[0, 1], w)
    pair = [(0, 1), (0, 2), (1, 2)]
    sizes = np.array([[2 if p == close else 3 for p in pair] for close in pair], float)
    known = similarities(3)
    weights = np.exp(-sizes @ [known[p] for p in pair])
    weights /= weights.sum()
    cov = (sizes * weights[:, None]).T @ sizes - np.outer(weights @ sizes, weights @ sizes)
    wanted = [cov[0, k] / 4 for k in range(3)]  # half of each derivative for either entry
    assert [float(second[p]) for p in pair] == pytest.approx(wanted, abs=1e-9)


def test_an_embedding_learns_a_tree():
    torch.manual_seed(0)
    tree = hct.Tree.from_nested((((0, 1), 2), ((3, 4), 5)))
    places = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    steps = torch.optim.Adam([places], lr=0.1)

    def loss():
        squares = ((places[:, None] - places[None]) ** 2).sum(dim=-1)
        return tree_nll(squares, tree, "average")

    before = loss().item()
    for _ in range(60):
        steps.zero_grad()
        loss().backward()
        steps.step()
    assert loss().item() < 0.3 < 3 < before
    squares = ((places[:, None] - places[None]) ** 2).sum(dim=-1).detach().numpy()
    post = hct.infer(hct.Linkage(squares, metric="precomputed"))
    assert post.map_tree == tree
    assert post.map_log_probability == pytest.approx(-loss().item(), abs=1e-9)


@models
def test_a_step_of_training_is_fast(model):
    """Twelve leaves, 32 matrices: below 0.3 s on two cores, so 0.6 s of CPU time.

    The pass is compiled at this size; its derivatives are those of a posterior, which lists splits.
    """
    w = matrices(model, 12, 32).requires_grad_()
    log_partition(w, model, 0.5).sum().backward()
    post = hct.infer(MODELS[model](pairs(w[3].detach()), 0.5))
    (wanted,) = (value for value in post.gradient().values() if np.ndim(value) == 2)
    np.testing.assert_allclose(w.grad[3] + w.grad[3].T, wanted, atol=1e-9)
    began = time.process_time()
    log_partition(w, model, 0.5).sum().backward()
    assert time.process_time() - began < 0.6


# ---- mistakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: log_partition(points(3)), TypeError, "must be a tensor of floats"),
        (lambda: log_partition(torch.eye(3, dtype=int)), TypeError, "got torch.int64"),
        (lambda: log_partition(torch.zeros(3, 2)), ValueError, r"shape \(n, n\)"),
        (lambda: log_partition(torch.zeros(0, 0)), ValueError, "at least one leaf"),
        (lambda: log_partition(torch.full((2, 2), math.nan)), ValueError, "not finite"),
        (lambda: log_partition(torch.eye(3), "ward"), ValueError, "dasgupta, average, correl"),
        (lambda: log_partition(torch.eye(3), beta=0.0), ValueError, "beta must be one finite"),
        (
            lambda: tree_nll(torch.zeros(2, 3, 3), [hct.Tree.from_nested(((0, 1), 2))]),
            ValueError,
            "1 trees were given for 2 matrices",
        ),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "hctrellis.torch")
    with pytest.raises(ImportError, match=r'pip install "hctrellis\[torch\]"'):
        importlib.import_module("hctrellis.torch")


def test_all_positive_affinities_are_no_mistake():
    """Every tree weighs the same then, as may happen while a layer learns."""
    w = torch.tensor(np.abs(affinities(4)))
    wanted = math.log(15) - np.tril(np.abs(affinities(4)), -1).sum()
    assert float(log_partition(w, "correlation")) == pytest.approx(wanted)
