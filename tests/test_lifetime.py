"""What is compiled for users' functions goes with these, and not before."""

import gc
import sys
import threading
import weakref

import numba
import numpy as np
import pytest

import hctrellis as hct
from hctrellis.kernels import bind, door, lifetime, users
from hctrellis.kernels.renewed import weigher

LEAVES = np.random.default_rng(0).normal(size=(3, 2)) ** 2  # few, which need one kernel alone

pytestmark = pytest.mark.skipif(not door.IS_COMPILING, reason="nothing is compiled")


def numbers(i):
    """A potential, of a function of its own, which calls another one and itself."""
    slope = 0.25 + i

    @numba.njit
    def gap(a, b):
        return gap(b, a) if a > b else (b - a) ** 2

    @numba.njit
    def weigh(left, right, parent):
        return -slope * gap(left[0], right[0]) - np.log(parent[1])

    return hct.FunctionPotential(weigh, LEAVES)


def plain(i):
    """The same, for NumPy."""
    return hct.FunctionPotential(
        lambda left, right, parent: -(0.25 + i) * (left[0] - right[0]) ** 2 - np.log(parent[1]),
        LEAVES,
    )


def kernel_of(potential):
    code = potential.code()
    return bind.bind(("weights", "tiles", "full"), [code])


def kept():
    """How many results are kept for users' functions."""
    tables = (bind._load.table, users._form.table, weigher.table)
    return [sum(len(found) > 2 for found in table.values()) for table in tables]


def test_functions_are_let_go():
    """With the potential all that was compiled for it goes, from Numba's books and LLVM's, too."""
    gc.collect()
    lifetime.sweep()
    before = kept()
    potential = numbers(0)
    solved = hct.infer(potential)
    assert solved.log_partition == pytest.approx(hct.infer(plain(0)).log_partition)
    assert [now - then for now, then in zip(kept(), before, strict=True)] == [1, 1, 1]
    kernel = kernel_of(potential)
    name = kernel.__name__
    (version,) = kernel.solve_low.overloads.values()
    engine, text = version.library.codegen._engine._ee, version.library._final_module
    assert name in sys.modules
    assert text in engine._modules
    known = [weakref.ref(thing) for thing in (potential.function, kernel, version.library)]
    del potential, solved, kernel, version
    gc.collect()
    lifetime.sweep()
    gc.collect()
    assert [ref() for ref in known] == [None, None, None]
    assert kept() == before
    assert name not in sys.modules
    lifetime.sweep()
    assert text.closed
    assert text not in engine._modules


def test_functions_in_use_stay():
    """While others go; a potential that is pickled outlives its function."""
    cloudpickle = pytest.importorskip("cloudpickle")
    one, other = numbers(0), numbers(1)
    want = [plain(i).split_log_weights(*SIDES) for i in (0, 1)]
    post = hct.infer(one)
    assert other.split_log_weights(*SIDES) == pytest.approx(want[1])
    text = cloudpickle.dumps(one)
    del other
    gc.collect()
    lifetime.sweep()
    same = hct.infer(plain(0))
    assert post.map_tree == same.map_tree
    assert post.cluster_probability([0, 1]) == pytest.approx(same.cluster_probability([0, 1]))
    kernel = kernel_of(one)
    assert kernel is kernel_of(one)  # not compiled again
    assert (one + one).split_log_weights(*SIDES) == pytest.approx(2 * want[0])
    del one, post, kernel
    gc.collect()
    lifetime.sweep()
    assert cloudpickle.loads(text).split_log_weights(*SIDES) == pytest.approx(want[0])


SIDES = np.array([[True, False, True]]), np.array([[False, True, False]])


def test_threads_let_go_of_functions():
    """While other threads compile, and use functions of the same text."""
    want = [plain(i).split_log_weights(*SIDES) for i in (0, 1)]
    whole = hct.infer(plain(0)).log_partition
    found = []

    def work(k):
        if k == 0:
            found.append((whole, hct.infer(numbers(0)).log_partition))
        for i in (0, 1):
            found.append((want[i], numbers(i).split_log_weights(*SIDES)))
            gc.collect()
            lifetime.sweep()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 9
    for expected, value in found:
        assert value == pytest.approx(expected)


def test_functions_of_the_same_text():
    """Share the name of a module, which stays until the last one is gone."""
    one, other = numbers(7), numbers(7)
    kernels = [kernel_of(potential) for potential in (one, other)]
    name = kernels[0].__name__
    assert kernels[1].__name__ == name
    for last in (False, True):
        del kernels[-1]
        if last:
            one = None
        else:
            other = None
        gc.collect()
        lifetime.sweep()
        assert (name in sys.modules) != last
    assert one is other is None


def test_function_that_is_gone():
    """What is compiled for a function that is gone is right, and not kept."""
    potential = numbers(0)
    code = potential.code()
    del potential
    gc.collect()
    before = kept()
    kernel = bind.bind(("weights", "tiles", "full"), [code])
    assert callable(kernel.solve_blocks)
    assert kept() == before


def test_pass_managers_are_freed():
    """Or each function that is compiled leaves some 15 MB behind, by an oversight of llvmlite."""
    new = pytest.importorskip("llvmlite.binding.newpassmanagers")
    for kind in (new.ModulePassManager, new.FunctionPassManager):
        assert kind._dispose is not door.binding.ffi.ObjectRef._dispose
