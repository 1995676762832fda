"""Bad input: one clear sentence of the right type each, and nothing from inside a kernel."""

import math
import traceback

import numba
import numpy as np
import pytest

import hctrellis as hct
from gallery import affinities, momenta, points, similarities

NAN = math.nan


def lopsided(n=3):
    matrix = similarities(n)
    matrix[0, 1] += 1.0
    return matrix


def with_entry(matrix, value):
    matrix = np.array(matrix, float)
    matrix[0, 1] = matrix[1, 0] = value
    return matrix


def momenta_with(row):
    return np.vstack([momenta(2), row])


MATRICES = {
    "not square": (np.zeros((2, 3)), ValueError, r"must be a square matrix .* got shape \(2, 3\)"),
    "flat": (np.zeros(4), ValueError, r"must be a square matrix .* got shape \(4,\)"),
    "deep": (np.zeros((2, 2, 2)), ValueError, "must be a square matrix"),
    "number": (3.0, ValueError, r"must be a square matrix .* got shape \(\)"),
    "empty": (np.zeros((0, 0)), ValueError, "is empty; at least one leaf is needed"),
    "nothing": ([], ValueError, "must be a square matrix|at least one leaf"),
    "not symmetric": (lopsided(), ValueError, r"must be symmetric; \[0, 1\] is .* but \[1, 0\] is"),
    "nan": (with_entry(affinities(3), NAN), ValueError, r"2 entries that are not finite.*\[0, 1\]"),
    "infinite": (with_entry(affinities(3), math.inf), ValueError, "not finite"),
    "text": ([["a", "b"], ["c", "d"]], TypeError, "must be an array of real numbers"),
    "None": (None, (TypeError, ValueError), "must be an array of real numbers|not finite"),
    "complex": (1j * np.eye(2), TypeError, "must be an array of real numbers"),
    "ragged": ([[1, 2], [3]], TypeError, "must be an array of real numbers"),
}

TABLES = {
    "empty": (np.zeros((0, 2)), ValueError, r"must be a table .* got shape \(0, 2\)"),
    "no columns": (np.zeros((2, 0)), ValueError, "must be a table"),
    "deep": (np.zeros((2, 2, 2)), ValueError, "must be a table"),
    "condensed": (np.ones(4), ValueError, r"are n \(n-1\) / 2 numbers; got 4"),
    "nan": ([[0.0, NAN], [1.0, 2.0]], ValueError, r"not finite, the first at \[0, 1\]"),
    "negative": ([1.0, -1.0, 1.0], ValueError, r"must not be negative; \[0, 2\] is -1"),
    "text": ([["a"], ["b"]], TypeError, "must be an array of real numbers"),
}

MOMENTA = {
    "three columns": (np.ones((3, 3)), ValueError, r"one row \(E, px, py, pz\) per particle"),
    "one row": (np.ones(4), ValueError, r"one row \(E, px, py, pz\) per particle"),
    "empty": (np.zeros((0, 4)), ValueError, "the jet has no particles"),
    "negative": (momenta_with([-5.0, 0, 0, 0]), ValueError, r"particle 2 has a negative energy"),
    "space-like": (momenta_with([1.0, 3, 0, 0]), ValueError, "particle 2 is space-like .*= -8"),
    "nan": (momenta_with([NAN, 0, 0, 0]), ValueError, r"not finite, the first at \[2, 0\]"),
    "text": ([["a"] * 4], TypeError, "must be an array of real numbers"),
}


def ginkgo(jet):
    return hct.Ginkgo(jet, 1.5, 1.0)


def jet_mass(jet):
    return hct.JetMass(jet, 1.5)


def cases(makers, inputs):
    return [
        pytest.param(make, *case, id=f"{make.__name__}, {name}")
        for make in makers
        for name, case in inputs.items()
    ]


@pytest.mark.parametrize(
    ("make", "given", "error", "match"),
    [
        *cases([hct.Dasgupta, hct.CorrelationClustering], MATRICES),
        *cases([hct.Linkage], TABLES),
        *cases([ginkgo, jet_mass], MOMENTA),
    ],
)
def test_data(make, given, error, match):
    with pytest.raises(error, match=match) as raised:
        make(given)
    assert_one_sentence(raised)


def assert_one_sentence(raised):
    """The whole message is one line, and the error comes from our Python code."""
    message = str(raised.value)
    assert message
    assert "\n" not in message
    files = [frame.filename for frame in traceback.extract_tb(raised.tb)]
    assert "hctrellis" in files[-1] or "hctrellis" in files[-2]


@pytest.mark.parametrize(
    ("matrix", "match"),
    [
        (-np.ones((2, 2)) + np.eye(2), r"must not be negative; \[0, 1\] is -1"),
        (np.ones((2, 2)), r"leaf to itself must be 0; \[0, 0\] is 1"),
        (lopsided(), "must be symmetric"),
        (np.zeros((2, 3)), "must be a square matrix"),
        (np.zeros((0, 0)), "at least one leaf"),
        (with_entry(np.zeros((2, 2)), NAN), "not finite"),
    ],
)
def test_precomputed_distances(matrix, match):
    with pytest.raises(ValueError, match=match) as raised:
        hct.Linkage(matrix, metric="precomputed")
    assert_one_sentence(raised)


BETAS = [
    (-1.0, ValueError, "beta must be a finite number and not negative; got -1"),
    (NAN, ValueError, "beta must be a finite number and not negative; got nan"),
    (math.inf, ValueError, "beta must be a finite number"),
    ("warm", TypeError, "beta must be a number; got 'warm'"),
    (None, TypeError, "beta must be a number; got None"),
    ([1, 2], TypeError, "beta must be a number"),
]


@pytest.mark.parametrize(("beta", "error", "match"), BETAS)
@pytest.mark.parametrize("make", [hct.Dasgupta, hct.CorrelationClustering, hct.Linkage])
def test_beta(make, beta, error, match):
    with pytest.raises(error, match=match) as raised:
        make(affinities(3, 1), beta=beta)
    assert_one_sentence(raised)


@pytest.mark.parametrize(
    "options",
    [
        {"lam": 0.0},
        {"lam": -1.0},
        {"lam": NAN},
        {"t_cut": 0.0},
        {"t_cut": math.inf},
        {"lam_root": -2.0},
        {"lam_root": 0.0},
    ],
)
def test_rates(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"{name} must be a finite number and positive"):
        hct.Ginkgo(momenta(3), **({"lam": 1.5, "t_cut": 1.0} | options))


def test_rate_of_jet_mass():
    with pytest.raises(ValueError, match="lam must be a finite number and positive; got 0"):
        hct.JetMass(momenta(3), 0.0)
    with pytest.raises(TypeError, match="lam must be a number; got 'x'"):
        hct.JetMass(momenta(3), "x")


def total(left, right, parent):
    return parent[0]


LABELLED = {
    "linkage": lambda labels: hct.Linkage(points(3), labels=labels),
    "dasgupta": lambda labels: hct.Dasgupta(similarities(3), labels=labels),
    "correlation": lambda labels: hct.CorrelationClustering(affinities(3, 1), labels=labels),
    "ginkgo": lambda labels: hct.Ginkgo(momenta(3), 1.5, 1.0, labels=labels),
    "jet mass": lambda labels: hct.JetMass(momenta(3), 1.5, labels=labels),
    "prior": lambda labels: hct.BetaSplitting(3, labels=labels),
    "function": lambda labels: hct.FunctionPotential(
        lambda l, r, p: p[0], [1, 2, 3], labels=labels
    ),
}


@pytest.mark.parametrize("name", LABELLED)
def test_labels(name):
    with pytest.raises(ValueError, match="labels must differ, but 'a' is given 2 times") as raised:
        LABELLED[name](["a", "b", "a"])
    assert_one_sentence(raised)
    with pytest.raises(ValueError, match="2 labels were given for 3 leaves; give one for each"):
        LABELLED[name](["a", "b"])


@pytest.mark.parametrize("name", LABELLED)
def test_trees_with_other_labels(name):
    potential = LABELLED[name](["a", "b", "c"])
    other = hct.Tree.from_nested((("a", "b"), "d"))
    larger = hct.Tree.from_nested(((("a", "b"), "c"), "d"))
    for tree in (other, larger, hct.Tree.from_nested("a")):
        with pytest.raises(ValueError, match="their labels differ, for instance") as raised:
            potential.log_weight(tree)
        assert_one_sentence(raised)
        with pytest.raises(ValueError, match="their labels differ"):
            potential.energy(tree)
    with pytest.raises(TypeError, match="expected a Tree, got tuple"):
        potential.log_weight(("a", ("b", "c")))


def test_posterior_with_other_labels():
    post = hct.infer(LABELLED["linkage"](None))
    with pytest.raises(ValueError, match="their labels differ, for instance"):
        post.log_probability(hct.Tree.from_nested((("a", "b"), "c")))
    with pytest.raises(TypeError, match="expected a Tree, got str"):
        post.log_probability("((0,1),2);")


# ---- linkage ----------------------------------------------------------------------------------


def test_unknown_method():
    with pytest.raises(ValueError, match=r"method must be one of single, complete, .*got 'median'"):
        hct.Linkage(points(3), "median")


@pytest.mark.parametrize("method", ["ward", "centroid"])
def test_heights_that_need_euclidean_distances(method):
    with pytest.raises(ValueError, match=f"{method} heights need Euclidean .* got metric='city"):
        hct.Linkage(points(3), method, metric="cityblock")


def test_unknown_metric():
    with pytest.raises(ValueError, match="foo"):
        hct.Linkage(points(3), metric="foo")


def test_undefined_distances():
    with pytest.raises(ValueError, match="correlation distance between some rows is not defined"):
        hct.Linkage([[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [3.0, 2.0, 0.0]], metric="correlation")


# ---- priors and trellises ---------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, -1, 2.5, "4", None])
@pytest.mark.parametrize("make", [hct.BetaSplitting, hct.FullTrellis])
def test_number_of_leaves(make, n):
    with pytest.raises((ValueError, TypeError), match="n_leaves must be a whole number"):
        make(n)


@pytest.mark.parametrize("shape", [-2.0, -3.0, NAN, math.inf])
def test_shape_of_prior(shape):
    with pytest.raises(ValueError, match="shape must be a finite number greater than -2"):
        hct.BetaSplitting(4, shape)


def test_shape_of_prior_of_wrong_type():
    with pytest.raises(TypeError, match="shape must be a number") as raised:
        hct.BetaSplitting(4, "yule")
    assert_one_sentence(raised)


# ---- sums -------------------------------------------------------------------------------------


def test_sums():
    model = hct.Linkage(points(3))
    with pytest.raises(ValueError, match="cannot add potentials over 3 and 4 leaves"):
        model + hct.BetaSplitting(4)
    with pytest.raises(ValueError, match="cannot add potentials with different labels"):
        hct.Linkage(points(3), labels="abc") + hct.Linkage(points(3), labels="abd")
    with pytest.raises(TypeError, match="unsupported operand"):
        model + 1
    with pytest.raises(TypeError, match="unsupported operand"):
        1 + model


# ---- a user's function ------------------------------------------------------------------------


def test_function_must_be_callable():
    with pytest.raises(TypeError, match="function must be callable; got int"):
        hct.FunctionPotential(3, np.zeros(3))


def test_function_needs_a_number_of_leaves():
    with pytest.raises(ValueError, match="n_leaves or labels must be given"):
        hct.FunctionPotential(lambda l, r, p: p[0], lambda clusters: [clusters.sizes])


@pytest.mark.parametrize("n", [0, -1, 2.5, "4"])
def test_function_over_no_leaves(n):
    with pytest.raises((ValueError, TypeError), match="n_leaves must be a whole number"):
        hct.FunctionPotential(lambda l, r, p: p[0], lambda c: [c.sizes], n_leaves=n)


def test_function_with_two_numbers_of_leaves():
    with pytest.raises(ValueError, match="n_leaves"):
        hct.FunctionPotential(lambda l, r, p: p[0], np.zeros(4), n_leaves=5)


@pytest.mark.parametrize(
    ("features", "match"),
    [
        (np.zeros((2, 2, 2)), "features must be a function, or an array with a row per leaf"),
        ([], "features must be a function, or an array with a row per leaf"),
        (3.0, "features must be a function, or an array with a row per leaf"),
        ([1.0, NAN], "features has 1 entries that are not finite"),
        (lambda clusters: [np.zeros(1)], r"returned an array of shape \(1,\) for \d+ clusters"),
        (lambda clusters: 1.0, "features returned"),
    ],
)
def test_features(features, match):
    n = 4 if callable(features) else None
    with pytest.raises(ValueError, match=match) as raised:
        hct.FunctionPotential(lambda l, r, p: -p[0], features, n_leaves=n)
    assert_one_sentence(raised)


def test_function_of_wrong_shape():
    with pytest.raises(ValueError, match=r"function returned an array of shape \(2,\) for \d+ spl"):
        hct.FunctionPotential(lambda l, r, p: np.zeros(2), np.zeros(6))


def which(clusters):
    """Features that tell clusters apart: the mask, and the size."""
    return [clusters.leaf_sums(2.0 ** np.arange(clusters.members.shape[1])), clusters.sizes]


LOPSIDED = {
    "everywhere": (5, lambda l, r, p: l[0]),
    "pairs of leaves": (14, lambda l, r, p: hct.where(p[1] < 3, l[0], 0.0)),
    "one pair of leaves": (14, lambda l, r, p: hct.where(p[0] == 96, l[0], 0.0)),
    "the root": (14, lambda l, r, p: hct.where(p[1] > 13, l[0], 0.0)),
    "the root in halves": (14, lambda l, r, p: hct.where((p[1] > 13) & (l[1] == 7), l[0], 0.0)),
    "triples": (60, lambda l, r, p: hct.where(p[1] == 3, l[0], 0.0)),
    "one split": (12, lambda l, r, p: hct.where((l[0] == 21) & (p[0] == 61), 1.0, 0.0)),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("where", LOPSIDED)
def test_function_that_is_not_symmetric(where, compiled):
    n, function = LOPSIDED[where]
    message = r"same log weight whichever child is left; it gave \S+ and \S+ for {'.*} \| {'.*}"
    with pytest.raises(ValueError, match=message):
        hct.FunctionPotential(numba.njit(function) if compiled else function, which, n)


def test_function_that_is_not_symmetric_names_the_split():
    n, function = LOPSIDED["one split"]
    with pytest.raises(ValueError, match=r"gave 1 and 0 for {'a', 'c', 'e'} \| {'d', 'f'}"):
        hct.FunctionPotential(function, which, labels="abcdefghijkl"[:n])


def steep(left, right, parent):
    return 1e6 * parent[0] * abs(parent[0])


@pytest.mark.parametrize("value", [1e150, 1e138, -1e138])
@pytest.mark.parametrize("function", [steep, numba.njit(steep)], ids=["numpy", "numba"])
def test_log_weights_out_of_range(value, function):
    """Beyond the range that sums of them need: refused by all alike."""
    own = hct.FunctionPotential(function, np.full(4, value))
    message = r"the split {'0'} \| {'\d'.*} is -?\de\+\d+; .* from -1e\+280 to 1e\+280, or -inf"
    sparse = hct.SparseTrellis.from_trees([hct.Tree.from_newick("(((0,1),2),3);")])
    for call in (hct.infer, hct.greedy, lambda model: hct.infer(model, sparse)):
        with pytest.raises(ValueError, match=message):
            call(own)
    with pytest.raises(ValueError, match=message):
        raise ValueError(hct.infer_many([own]).to_arrow()["error"][0].as_py())


@pytest.mark.parametrize(
    "returned",
    [lambda p: p[0] + 1j, lambda p: np.ma.masked_greater(-p[0], -3), lambda p: list(p[0] + 0j)],
    ids=["complex", "masked", "list of complex"],
)
def test_function_whose_numbers_are_not_all_real(returned):
    """An imaginary part or a mask is not dropped."""
    with pytest.raises(TypeError, match="what function returns must be an array of real numbers"):
        hct.FunctionPotential(lambda l, r, p: returned(p), np.ones(4))
    with pytest.raises(TypeError, match="what features returns must be an array of real numbers"):
        hct.FunctionPotential(lambda l, r, p: -p[0], lambda c: [returned([c.sizes])], 4)
    with pytest.raises(TypeError, match="features must be an array of real numbers"):
        hct.FunctionPotential(lambda l, r, p: -p[0], returned([np.arange(5.0)]))


@pytest.mark.parametrize("returned", ["1j", "None", "(1.0, 2, 3)", "p[0] if p[0] > 2 else None"])
def test_numba_function_that_returns_no_number(returned):
    function = numba.njit(eval(f"lambda l, r, p: {returned}"))
    with pytest.raises(TypeError, match=r"function must return a real number, .*; it returns"):
        hct.FunctionPotential(function, np.ones(4))


def test_function_that_fails():
    """A user's own error is shown as it is."""
    with pytest.raises(ZeroDivisionError):
        hct.FunctionPotential(lambda l, r, p: 1 // 0, np.zeros(4))


def test_function_returning_text():
    with pytest.raises((TypeError, ValueError)):
        hct.FunctionPotential(lambda l, r, p: "heavy", np.zeros(4))


# ---- infer ------------------------------------------------------------------------------------


def test_infer_wants_a_potential():
    with pytest.raises(TypeError, match=r"must be a Potential, such as Link.*; got ndarray"):
        hct.infer(points(4))


@pytest.mark.parametrize("threads", [0, -1, 1.5, "two"])
def test_threads(threads):
    with pytest.raises((ValueError, TypeError), match="threads must be a whole number, at least 1"):
        hct.infer(hct.BetaSplitting(4), threads=threads)


def test_trellis_of_another_size():
    with pytest.raises(ValueError, match="the potential has 4 leaves, the trellis 5"):
        hct.infer(hct.BetaSplitting(4), trellis=hct.FullTrellis(5))


def test_trellis_of_another_kind():
    with pytest.raises(TypeError, match="trellis"):
        hct.infer(hct.BetaSplitting(4), trellis=4)


def test_progress_of_another_kind():
    with pytest.raises(TypeError, match="progress"):
        hct.infer(hct.BetaSplitting(4), progress="bar")


def test_energy_at_beta_zero():
    model = hct.Linkage(points(3), beta=0.0)
    with pytest.raises(ValueError, match="not defined by its weight at beta = 0"):
        model.energy(hct.Tree.from_nested(((0, 1), 2)))
