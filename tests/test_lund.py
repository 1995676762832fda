"""Declustering: coordinates in the Lund plane, levels and probabilities, and the picture."""

import math
from functools import cache

import matplotlib

matplotlib.use("Agg")

import awkward as ak
import numpy as np
import pytest

import hctrellis as hct
from hctrellis.plotting import plot_lund


@cache
def jet():
    return hct.simulate.ginkgo(1, n_leaves=6, rng=1)[0]


@cache
def posterior():
    return hct.infer(jet().potential())


def plain(tree, momenta):
    """The same by the definition, one splitting at a time."""
    nodes = [np.array(row) for row in momenta]
    for one, other in tree.children:
        nodes.append(nodes[one] + nodes[other])

    def about(p):
        return (
            math.hypot(p[1], p[2]),
            math.atan2(p[2], p[1]),
            0.5 * math.log((p[0] + p[3]) / (p[0] - p[3])),
        )

    found = {}

    def visit(node, level):
        if node < tree.n_leaves:
            return
        pair = tree.children[node - tree.n_leaves]
        softer, harder = sorted(pair, key=lambda child: about(nodes[child])[0])
        (soft, a, y), (hard, b, x) = about(nodes[softer]), about(nodes[harder])
        turn = (a - b + math.pi) % (2 * math.pi) - math.pi
        delta = math.hypot(x - y, turn)
        found[node] = (-math.log(delta), math.log(soft * delta), soft / (soft + hard), level)
        visit(harder, level)
        visit(softer, level + 1)

    visit(2 * tree.n_leaves - 2, 0)
    return [found[node] for node in range(tree.n_leaves, 2 * tree.n_leaves - 1)]


def test_by_the_definition():
    plane = hct.lund_plane(posterior())
    wanted = plain(posterior().map_tree, jet().momenta)
    names = ("ln_inverse_delta", "ln_kt", "z", "level")
    found = [[row[name] for name in names] for row in plane.tolist()]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    assert plane.level.tolist().count(0) >= 1


def test_probabilities_are_those_of_splits():
    plane = hct.lund_plane(posterior())
    masks = [1 << i for i in range(6)]
    for (one, other), row in zip(posterior().map_tree.children, plane.tolist(), strict=True):
        assert row["probability"] == posterior().split_probability(masks[one], masks[other])
        masks.append(masks[one] | masks[other])


def test_samples():
    drawn = hct.lund_plane(posterior(), 40, rng=3)
    trees = posterior().sample(40, rng=3)
    assert ak.num(drawn).tolist() == [5] * 40
    for row, tree in zip(drawn.ln_kt.tolist(), trees, strict=True):
        assert row == pytest.approx([each[1] for each in plain(tree, jet().momenta)], abs=1e-6)


def test_two_particles_and_one():
    two = hct.Ginkgo(jet().momenta[:2], lam=1.5, t_cut=1e-3)
    assert hct.lund_plane(hct.infer(two)).level.tolist() == [0]
    one = hct.Ginkgo(jet().momenta[:1], lam=1.5, t_cut=16.0)
    assert len(hct.lund_plane(hct.infer(one))) == 0


def test_coinciding_particles_stay_finite():
    jet = [[5.0, 3.0, 0.0, 4.0]] * 3
    plane = hct.lund_coordinates([hct.Tree.from_newick("((0,1),2);")], jet)
    assert np.isfinite(ak.to_numpy(plane.ln_inverse_delta)).all()


def test_wrong_input():
    with pytest.raises(TypeError, match="expected a posterior"):
        hct.lund_plane(jet())
    with pytest.raises(TypeError, match="needs a model of jets"):
        hct.lund_plane(hct.infer(hct.BetaSplitting(3)))
    with pytest.raises(ValueError, match="2 leaves, and there are 6 particles"):
        hct.lund_coordinates([hct.Tree.from_newick("(0,1);")], jet().momenta)
    with pytest.raises(ValueError, match="got shape"):
        hct.lund_coordinates([], [[1.0, 2.0]])


def test_cambridge():
    """Joins the closest pair first."""
    pytest.importorskip("fastjet")
    rows = [(10.0, 0.0, 0.0), (5.0, 0.05, 0.0), (8.0, 1.0, 0.5), (2.0, 1.2, 0.6)]
    momenta = [
        [pt * math.cosh(y), pt * math.cos(phi), pt * math.sin(phi), pt * math.sinh(y)]
        for pt, y, phi in rows
    ]
    assert hct.cambridge_tree(momenta) == hct.Tree.from_newick("((0,1),(2,3));")
    assert hct.cambridge_tree(momenta[:1]).n_leaves == 1


@pytest.mark.parametrize("cambridge", [False, True])
def test_picture(cambridge):
    if cambridge:
        pytest.importorskip("fastjet")
    ax = plot_lund(posterior(), size=50, rng=1, cambridge=cambridge)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == (
        ["MAP tree", "Cambridge/Aachen"] if cambridge else ["MAP tree"]
    )
    total = float(ax.collections[0].get_array().sum())
    drawn = hct.lund_plane(posterior(), 50, rng=1)
    assert total == pytest.approx(float(ak.sum(drawn.level == 0)) / 50)
