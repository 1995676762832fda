# make demo: answer a question about sixteen bacteria, exactly; writes demo/report.html and demo/tree.pdf
# make test: everything that is checked (tests, doctests, style, types)
# make test-lowest: the tests with the lowest versions of other packages that are supported
#   (but for types, which are checked against the newest)
# make docs: build the documentation; writes docs/_build
# make bench: measure speed and memory; writes benchmarks/RESULTS.md
#
# Each sets up its own environment in .venv first. Another Python: make PYTHON=python3.12 test

PYTHON ?= python3
PYTEST_ARGS ?=
BENCH_ARGS ?=

BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-lowest docs bench clean

demo: $(READY)
	$(BIN)/hctrellis demo --output demo

test: $(READY)
	$(BIN)/python -m pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-lowest:
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python -m pip install -q --disable-pip-version-check \
	  -c tests/lowest.txt -e '.[all,test]'
	.venv-lowest/bin/python -m pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder --ignore=tests/test_lint.py $(PYTEST_ARGS)

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build

bench: $(READY)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[bench]'
	$(BIN)/python benchmarks/exact.py $(BENCH_ARGS)
	$(BIN)/python benchmarks/posterior.py
	$(BIN)/python benchmarks/batch.py
	$(BIN)/python benchmarks/sparse.py
	$(BIN)/python benchmarks/numerics.py
	$(BIN)/python benchmarks/beta.py
	$(BIN)/python benchmarks/calibration.py
	$(BIN)/python benchmarks/certified.py

clean:
	rm -rf .venv .venv-lowest .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist demo docs/_build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo 'hctrellis needs Python 3.11 or newer, and "$(PYTHON)" is not; name one: make PYTHON=python3.12' >&2; \
	  exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[all,test]'
	@touch $@
