"""Fingerprints: whatever changes what a function does changes them, and nothing else does."""

import sys
import threading
from functools import partial
from types import ModuleType

import numpy as np
import pytest

import hctrellis as hct
from children import run, told
from hctrellis.support.fingerprint import OpaqueError, fingerprint
from hctrellis.support.watch import Watch

KINDS = {
    "a constant": "def f(x): return x + VALUE",
    "a global": "SCALE = VALUE\ndef f(x): return x * SCALE",
    "a global list": "SCALES = [0, VALUE]\ndef f(x): return x * SCALES[1]",
    "a global array": "import numpy as np\nA = np.array([VALUE])\ndef f(x): return x * A[0]",
    "a global object": "class C: pass\nc = C()\nc.scale = VALUE\ndef f(x): return x * c.scale",
    "a global's absence": "if VALUE == 1: SCALE = 1\ndef f(x): return x * SCALE",
    "a global helper": "def g(x): return x * VALUE\ndef f(x): return g(x)",
    "a helper's helper": "S = VALUE\ndef h(): return S\ndef g(): return h()\ndef f(x): return g()",
    "a helper of helpers in a circle": (
        "S = VALUE\ndef g(x): return f(x) if x else h(x)\ndef h(x): return S\ndef f(x): return g(x)"
    ),
    "a function inside": "S = VALUE\ndef f(x): return [(lambda y: y + S)(y) for y in x]",
    "a closure": "def make(s):\n def f(x): return x * s\n return f\nf = make(VALUE)",
    "a default": "def f(x, scale=VALUE): return x * scale",
    "a keyword-only default": "def f(x, *, scale=VALUE): return x * scale",
    "an attribute of the function": "def f(x): return x * f.scale\nf.scale = VALUE",
    "a decorator": (
        "import functools\ndef g(h):\n @functools.wraps(h)\n def i(x): return h(x) + VALUE\n"
        " return i\n@g\ndef f(x): return x"
    ),
    "functools.wraps of NumPy": (
        "import functools, numpy as np\n@functools.wraps(np.linspace)\ndef f(x): return x + VALUE"
    ),
    "a cached helper": (
        "import functools\n@functools.lru_cache\ndef g(x): return x + VALUE\ndef f(x): return g(x)"
    ),
    "functools.partial": (
        "from functools import partial\ndef g(x, scale): return x * scale\n"
        "f = partial(g, scale=VALUE)"
    ),
    "a bound method": (
        "class C:\n def __init__(self, s): self.s = s\n def g(self, x): return x * self.s\n"
        "f = C(VALUE).g"
    ),
    "a method's code": "class C:\n def g(self, x): return x * VALUE\nf = C().g",
    "a callable": (
        "class C:\n def __init__(self, s): self.s = s\n def __call__(self, x): return x * self.s\n"
        "f = C(VALUE)"
    ),
    "a callable with slots": (
        "class C:\n __slots__ = ('s',)\n def __init__(self, s): self.s = s\n"
        " def __call__(self, x): return x * self.s\nf = C(VALUE)"
    ),
    "a class attribute": "class C:\n s = VALUE\n def __call__(self, x): return x * self.s\nf = C()",
    "an inherited class attribute": (
        "class B:\n s = VALUE\nclass C(B):\n def __call__(self, x): return x * self.s\nf = C()"
    ),
    "a property": (
        "class C:\n @property\n def s(self): return VALUE\n"
        " def __call__(self, x): return x * self.s\nf = C()"
    ),
    "a static method": (
        "class C:\n @staticmethod\n def g(x): return x * VALUE\ndef f(x): return C.g(x)"
    ),
    "a dataclass": (
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass C:\n s: float = VALUE\n"
        "c = C()\ndef f(x): return x * c.s"
    ),
    "an enumeration": (
        "from enum import Enum\nclass C(Enum):\n S = VALUE\ndef f(x): return x * C.S.value"
    ),
    "a list with an attribute": (
        "class C(list): pass\nc = C([1])\nc.s = VALUE\ndef f(x): return x * c.s"
    ),
    "a list of a class": "class C(list): pass\nc = C([VALUE])\ndef f(x): return x * c[0]",
    "an attribute of a module": "import own\nown.S = VALUE\ndef f(x): return x * own.S",
    "a function of a module": "import own\nown.S = VALUE\ndef f(x): return own.scaled(x)",
    "a module by getattr": "import own\nown.S = VALUE\ndef f(x): return x * getattr(own, 'S')",
    "an import inside": (
        "import own\nown.S = VALUE\ndef f(x):\n from own import S\n return x * S"
    ),
    "a name of Python's own": "if VALUE == 1: max = min\ndef f(x): return max(x, 0)",
    "a ufunc": "import numpy\ng = [0, numpy.sin, numpy.cos][VALUE]\ndef f(x): return g(x)",
    "a method of an array": "import numpy\nf = numpy.arange(3 + VALUE).dot",
    "a set of texts": "S = {'a', 'b', 'c', str(VALUE)}\ndef f(x): return x in S",
    "a random generator": "import random\nr = random.Random(VALUE)\ndef f(x): return r.random()",
    "a regular expression": "import re\np = re.compile('a' * VALUE)\ndef f(x): return p.match(x)",
    "a Numba function": "import numba\nS = VALUE\n@numba.njit\ndef f(x): return x * S",
    "an option of Numba": (
        "import numba\n@numba.njit(fastmath=VALUE == 1)\ndef f(x): return x"
    ),
    "a helper of Numba": (
        "import numba\nS = VALUE\n@numba.njit\ndef g(x): return x * S\n"
        "@numba.njit\ndef f(x): return g(x)"
    ),
    "features": (
        "import hctrellis as hct\nS = VALUE\n"
        "f = hct.FunctionPotential(lambda l, r, p: -p[0], lambda c: [S * c.sizes], 3)"
    ),
    "a potential's own class": (
        "import hctrellis as hct\nclass P(hct.BetaSplitting):\n s = VALUE\nf = P(4)"
    ),
}  # fmt: skip

OWN = ModuleType("own")
exec("def scaled(x): return x * S", vars(OWN))


def made(kind, value):
    """What the text of a kind makes, in a module of its own."""
    scope = {"__name__": "users", "VALUE": value}
    exec(KINDS[kind].replace("VALUE", str(value)), scope)
    return scope["f"]


@pytest.fixture
def own(monkeypatch):
    monkeypatch.setitem(sys.modules, "own", OWN)


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_is_seen(kind, own):
    one, again, other = (fingerprint(made(kind, value)) for value in (1, 1, 2))
    assert one == again != other


ELSEWHERE = """
import json, sys
import test_fingerprint as here
sys.modules["own"] = here.OWN
for kind in here.KINDS:
    print(json.dumps([kind, here.fingerprint(here.made(kind, 1))]))
"""


def test_another_process(own):
    """The same things, made again in another process, where sets have another order."""
    marks = told(run(ELSEWHERE, environment={"PYTHONHASHSEED": "7"}))
    assert marks == {kind: fingerprint(made(kind, 1)) for kind in KINDS}


def test_everyday_values():
    """Numbers and containers of different kinds differ, and sharing does not matter."""
    pair = (1.0, "a")
    values = [1, 1.0, "1", b"1", True, None, [1], (1,), {1}, {1: 1}, 10**5000, np.arange(2)]
    values += [np.arange(2.0), np.arange(2.0)[:, None], np.float32(1), [None, [1]], [[None], 1]]
    marks = [fingerprint(value) for value in values]
    assert len({*marks}) == len(values)
    assert fingerprint([pair, pair]) == fingerprint([pair, (1.0, "a")])


@pytest.mark.parametrize(
    "value",
    [
        threading.Lock(),
        (i for i in range(3)),
        np.frompyfunc(abs, 1, 1),
        OWN,
        partial(print, file=sys.__stderr__),
        lambda x: eval("x + 1"),
        lambda x: float(open(x).read()),  # noqa: PTH123, SIM115
        lambda x: OWN,
    ],
    ids=["lock", "generator", "ufunc", "module", "file", "eval", "open", "whole module"],
)
def test_what_cannot_be_known(value):
    with pytest.raises(OpaqueError):
        fingerprint(value)


def test_potentials_stay_the_same_while_used():
    table = np.random.default_rng(0).normal(size=(5, 3))
    trees = [hct.greedy(hct.Linkage(table)), hct.greedy(hct.Linkage(-table[::-1]))]
    models = [hct.Linkage(table), hct.Dasgupta(abs(table @ table.T)), hct.CladeDistribution(trees)]
    before = [fingerprint(model) for model in models]
    for model in models:
        hct.infer(model).cluster_probabilities(0.1)
    assert [fingerprint(model) for model in models] == before


def test_watch():
    scope = {"SCALE": 1.0, "NOTES": [], "COUNT": 0}
    exec("def f(x):\n global COUNT\n COUNT += 1\n NOTES.append(x)\n return x * SCALE", scope)
    watch = Watch(scope["f"])
    assert watch.changed() == watch.rebound() == []
    scope["f"](1.0)
    assert watch.changed() == ["COUNT", "NOTES"]
    assert watch.rebound() == []
    scope["SCALE"] = 2.0
    assert watch.rebound() == ["SCALE"]


LIVE = """
import functools
import numpy as np
NUMBER, LIST, NESTED, SET, DICT = 1, [1], ([1],), {1}, {"a": 1}
ARRAY, RECORD = np.zeros(3), np.zeros(1, "f8, f8")[0]
class Base:
    pass
class Held(Base):
    slope = 1
    def method(self):
        return NUMBER
class Slotted:
    __slots__ = ("full", "empty")
    def __init__(self):
        self.full = 1
held, slotted = Held(), Slotted()
def helper(x, default=1, *, keyword=1):
    return x + default + keyword
part = functools.partial(helper, keyword=2)
def make():
    inside = 1
    def change(value):
        nonlocal inside
        inside = value
    def read():
        return inside
    return read, change
read, change = make()
def f(x):
    LIST, NESTED, SET, DICT, ARRAY, RECORD, slotted, part, own.attribute
    return abs(held.method()) + helper(x) + read()
"""
CHANGES = {
    "a number": "NUMBER = 2",
    "a number of another kind": "NUMBER = 1.0",
    "a name that is gone": "del NUMBER",
    "an item of a list": "LIST[0] = 2",
    "an item of another kind": "LIST[0] = True",
    "a longer list": "LIST.append(1)",
    "a list in a tuple": "NESTED[0].append(2)",
    "a set": "SET.add(2)",
    "a value of a dictionary": "DICT['a'] = 2",
    "a key of a dictionary": "DICT.pop('a'); DICT['b'] = 1",
    "an array": "ARRAY[1] = 1.0",
    "the shape of an array": "ARRAY.shape = (1, 3)",
    "a record": "RECORD[1] = 2.0",
    "an attribute": "held.slope = 2",
    "an attribute of a class": "Held.slope = 2",
    "an attribute of a base": "Base.more = 2",
    "the class of an object": "held.__class__ = type('Other', (Held,), {})",
    "a method": "Held.method = lambda self: 1",
    "a slot": "slotted.full = 2",
    "a slot that was empty": "slotted.empty = None",
    "the code of a helper": "helper.__code__ = (lambda x, default, *, keyword: x).__code__",
    "a default": "helper.__defaults__ = (2,)",
    "a default in place": "helper.__kwdefaults__['keyword'] = 2",
    "an argument of a partial function": "part.keywords['keyword'] = 3",
    "an attribute of a function": "f.note = 1",
    "a variable of an enclosing function": "change(2)",
    "a built-in name": "abs = float",
    "a module's attribute": "own.attribute = 2",
}


@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_watch_sees_what_changes_in_place(change):
    """Also after a look that found nothing, which makes the next one quick."""
    own = ModuleType("own")
    own.attribute = 1
    scope = {"own": own}
    exec(LIVE, scope)
    watch = Watch(scope["f"])
    assert watch.changed() == []
    assert watch._glance.same()
    exec(change, scope)
    assert watch.changed() != []


def test_watch_looks_quickly():
    """Nothing is read again if all objects are the same; what a property keeps is no change."""
    scope = {}
    exec(
        "from functools import cached_property\nclass C:\n @cached_property\n def kept(self): "
        "return [1]\nc = C()\nLIST = [c]\ndef f(x): return LIST[0].kept",
        scope,
    )
    watch = Watch(scope["f"])
    assert watch.changed() == []
    looks = watch._glance
    assert looks.same()
    scope["f"](1)  # fills in what the property keeps
    assert not looks.same()
    assert watch.changed() == []
    assert watch._glance.same()
