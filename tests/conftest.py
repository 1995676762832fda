"""What all tests need."""

import gc
import signal

import pytest

# A shell that starts its tests in the background has them ignore Ctrl-C, and so would the programs
# that are started, and interrupted, here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = [
    "infer",
    "kernels",
    "lint",
    "batch",
    "certify",
    "contrasts",
    "potentials",
    "where",
    "posterior",
    "docs",
    "fuzz",
    "cli_infer",
    "report",
    "resources",
    "sampled",
    "concurrency",
    "cli_batch",
    "lanes",
    "sampling",
    "estimator",
    "reproduce",
    "gradient",
    "cli",
    "sparse",
    "search",
    "fit",
    "plotting",
    "local_search",
    "lifetime",
    "torch",
    "density",
    "simulate",
]
"""Files of tests that take long, before all others, so that no worker waits for another at the
end. While the first compiles what nearly all use, others that compile little of it run beside it,
and those that start many programs come when most kernels are on disk: what two workers want at the
same time is compiled twice."""

OBJECTS = 20_000  # that are made between two searches for garbage; Python's default is 700


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the garbage collector from looking through all tests and packages, again and again.

    What is there after the collection of tests stays, and to compile a kernel makes many objects:
    looking for garbage as often as usual would take a tenth of the time of all tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(OBJECTS)
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _settled():
    """Leave what is there after each file of tests out of later searches for garbage.

    Some tests have to search, and those of all files before would make that take seconds.
    """
    yield
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    """Put slow files first; the order inside a file stays."""
    order = {f"test_{name}.py": k for k, name in enumerate(SLOW)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))
