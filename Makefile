# Every target sets up all it needs; a fresh clone needs Python 3.11+, make and a package index.
# (make test-system also installs the Debian packages it names, and so wants root.)

PYTHON ?= python3
BIN := .venv/bin
# The tests start hundreds of processes: without cached bytecode each of them compiles the whole library.
unexport PYTHONDONTWRITEBYTECODE
READY := .venv/.ready
# The demo needs little, so that a newcomer need not wait for the tools of development.
DEMO_READY := .venv/.demo-ready
EXAMPLES_READY := .venv/.examples-ready
# Much of what the tests do is waiting. Tests of one class or module stay together and share their servers.
PARALLEL := -n 5 --dist loadscope
# Runs under faults have worker processes of their own.
PARALLEL_FAULTS := -n 3 --dist loadscope

.PHONY: setup demo example-bridge-lite example-sentinel test test-full test-system lint chaos bench bench-compare coverage clean

setup: $(READY)

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(DEMO_READY) $(EXAMPLES_READY)

$(DEMO_READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[web]'
	@touch $@

$(EXAMPLES_READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[examples]'
	@touch $@ $(DEMO_READY)

demo: $(DEMO_READY)
	$(BIN)/interlock demo

# Intents flow, reviewers correct them, workers are killed: SECONDS of it, and an audit.
SECONDS ?= 60
example-bridge-lite: $(DEMO_READY)
	cd examples/bridge_lite && $(abspath $(BIN))/python -m bridge.story --seconds $(SECONDS)

# Operators click, schedules fire and are edited, workers are killed: SECONDS of it, and an audit.
example-sentinel: $(EXAMPLES_READY)
	cd examples/sentinel && $(abspath $(BIN))/python -m sentinel.story --seconds $(SECONDS)

# What a newcomer runs: every promise on every store, the longest suites on PostgreSQL left to test-full.
test: setup
	$(BIN)/pytest tests -m "not full and not system and not chaos" $(PARALLEL)

# The rest: long forms, runs under faults, planted bugs.
test-full: setup
	$(BIN)/pytest tests -m "full and not system and not chaos" $(PARALLEL_FAULTS) --timeout 600

test-system: setup
	tests/system/install.sh
	$(BIN)/pytest tests/system -m system $(PARALLEL)
	$(BIN)/pytest tests/web/browser -m system $(PARALLEL)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/lint-imports

chaos: setup
	$(BIN)/pytest tests/chaos -m chaos -s --timeout 7200

bench: setup
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/python -m benchmarks

# The working tree against another commit, in interleaved pairs: make bench-compare BASE=main
BASE ?= main
PAIRS ?= 15
bench-compare: setup
	$(BIN)/python -m benchmarks.compare $(BASE) --pairs $(PAIRS)

# The core concepts, on every store. Measuring slows the tests down, so those of other parts are left out.
COVERING := $(addprefix tests/,conformance claims insight jobs journal limits locks records simulation sync) \
	$(addprefix tests/backends/test_postgres_,job_vacuum.py locked_rows.py records.py) $(wildcard tests/test_*.py)
coverage: setup
	$(BIN)/pytest $(COVERING) -m "(covering or not full) and not system and not chaos" $(PARALLEL) --cov --cov-report json:build/coverage.json
	$(BIN)/python -m tests.coverage_gate build/coverage.json

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache
