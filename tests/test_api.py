"""One vocabulary: the page of the reference, and the names of classes, keywords and arguments."""

from __future__ import annotations

import inspect
import pydoc
from importlib import import_module

import numpy as np
import pytest

import hctrellis as hct
import reference

MODULES = ("simulate", "build", "trellis.orders", "plotting", "report", "treefiles", "datasets")
ENTRIES = reference.entries()


def public_names():
    names = [*hct.__all__, "TrellisClustering"]
    yield from ((name, getattr(hct, name)) for name in names)
    for path in MODULES:
        module = import_module(f"hctrellis.{path}")
        yield from ((name, getattr(module, name)) for name in module.__all__)


def test_every_public_name_is_in_the_reference():
    documented = [entry.value for entry in ENTRIES]
    missing = [
        name
        for name, value in public_names()
        if not (inspect.ismodule(value) or name == "__version__")
        and not any(value is other for other in documented)
    ]
    assert missing == []


def test_every_type_that_is_returned_is_in_the_reference():
    documented = {entry.name for entry in ENTRIES}
    missing = {entry.name: reference.returned(entry) - documented for entry in ENTRIES}
    assert {name: types for name, types in missing.items() if types} == {}


def test_no_class_name_has_two_meanings():
    assert {name: paths for name, paths in reference.classes().items() if len(paths) > 1} == {}


def signature(value):
    try:
        return inspect.signature(value).parameters
    except ValueError:  # an exception
        return {}


def signatures():
    """The arguments of all that can be called, by name."""
    for name, value, members in ENTRIES:
        if callable(value):
            yield name, signature(value)
        for member in members:
            method = getattr(value, member)
            if callable(method) and not inspect.isclass(method):
                yield f"{name}.{member}", signature(method)


def test_no_argument_is_private():
    found = [call for call, names in signatures() if any(name.startswith("_") for name in names)]
    assert found == []


def test_labels_that_may_be_left_out_are_keywords():
    labels = {call: names["labels"] for call, names in signatures() if "labels" in names}
    optional = {call: label for call, label in labels.items() if label.default is None}
    assert len(optional) >= 12
    assert {label.kind for label in optional.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_progress_is_of_one_kind():
    kinds = {names["progress"].annotation for _, names in signatures() if "progress" in names}
    assert kinds == {"Progress | bool | None"}


def test_help_shows_nothing_private():
    for kind in (hct.Posterior, hct.BatchResult):
        text = pydoc.render_doc(kind)
        assert not [name for name in ("_solution", "_threads", "_parts") if name in text]


# ---- earlier names ------------------------------------------------------------------------------

ROWS = [[0.0], [1.0], [3.0], [7.0]]
TABLE = np.random.default_rng(1).normal(size=(4, 6))


def posterior():
    return hct.infer(hct.Linkage(ROWS))


def searched(**options):
    return hct.local_search(hct.Linkage(ROWS), rng=0, **options).n_restarts


def grown(**options):
    return hct.grow(hct.Linkage(ROWS), rng=0, max_rounds=1, **options).trellis.n_trees


EARLIER = {
    "given": (
        lambda **options: posterior().given(**options).log_partition,
        {"clusters": [[0, 1]], "forbidden": [[0, 1, 2]]},
        {"contains": [[0, 1]], "lacks": [[0, 1, 2]]},
    ),
    "prior": (
        lambda **options: hct.BetaSplitting(4, **options).shape,
        {"beta": -1.0},
        {"shape": -1.0},
    ),
    "local search": (searched, {"restarts": 3}, {"n_restarts": 3}),
    "growth": (grown, {"restarts": 3}, {"n_restarts": 3}),
    "bootstrap": (
        lambda **options: hct.build.from_bootstrap(TABLE, rng=0, **options).n_trees,
        {"size": 3},
        {"n_resamples": 3},
    ),
    "shower": (
        lambda **options: hct.simulate.ginkgo(2, rng=0, **options).newicks(),
        {"leaves": 4},
        {"n_leaves": 4},
    ),
    "report": (
        lambda **options: hct.report_html(posterior(), **options),
        {"n_trees": 2, "n_samples": 3},
        {"k": 2, "size": 3},
    ),
}


@pytest.mark.parametrize("name", EARLIER)
def test_earlier_names_of_keywords_still_work(name):
    call, earlier, present = EARLIER[name]
    assert call(**earlier) == call(**present)
    with pytest.raises(TypeError, match="which mean the same"):
        call(**earlier, **present)
