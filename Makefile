# Everything on a fresh machine with Python 3.11 and make:
#   make demo   set up, train, build, measure, rank
#   make test          set up, lint, types, every fast test and one test of each real component
#   make test-system   the other tests: phones, Ray, browser, signals, another torch
#   make faults        every fault of infra/faults.md, injected, with a table of what followed
# STRICT=1: a test fails, instead of being skipped, if this machine lacks something that it needs.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
WORKSPACE ?= edgesweep-data
PORT ?= 8501
PICTURES ?= screenshots
# Tests in parallel. Those of the second tier wait half of their time: for phones, faults, leases.
JOBS ?= 2
SYSTEM_JOBS ?= 3
STAMP := $(VENV)/.installed
# With ExecuTorch and ONNX Runtime, which only the tests need.
ALL := $(VENV)/.installed-runtimes

.PHONY: demo test test-system faults dashboard screenshots bench lint fmt docs clean
.DEFAULT_GOAL := demo

demo: $(STAMP)
	$(BIN)/edgesweep demo --workspace $(WORKSPACE)

dashboard: $(STAMP)
	$(BIN)/edgesweep dashboard --workspace $(WORKSPACE) --port $(PORT)

# Every page of the dashboard, in both themes and three widths, of made-up sweeps: needs Debian's chromium.
screenshots: $(STAMP)
	$(BIN)/python infra/screenshot.py --out $(PICTURES)

# The two tiers, and what only the suite of faults runs: each test is in one of them.
FAST := (not system or smoke) and not suite
SYSTEM := system and not smoke and not suite
SUITE := suite
PYTEST = $(BIN)/python -m pytest --dist loadgroup --no-loadscope-reorder $(if $(STRICT),--strict-machine) $(PYTEST_ARGS)

test: $(ALL) lint
	$(PYTEST) -n $(JOBS) -m "$(FAST)"

test-system: $(ALL)
	$(PYTEST) -n $(SYSTEM_JOBS) -m "$(SYSTEM)"

# libfaketime, for jumps of the clock, is compiled where it is installed: nothing else here needs a compiler for that.
faults: $(ALL)
	$(BIN)/python -m pip install --quiet --constraint infra/constraints.txt libfaketime
	$(PYTEST) -n $(JOBS) -m "fault" --faults

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(ALL)
	$(BIN)/python tests/benchmarks/run_all.py

docs: $(STAMP)
	$(BIN)/python infra/write_docs.py

$(STAMP): pyproject.toml infra/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
		|| { echo "make: Python 3.11 is needed; name it with: make PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing EdgeSweep and its pinned dependencies into $(VENV) (about 6 GB, 2 to 4 minutes) ..."
	$(BIN)/python -m pip install --quiet --constraint infra/constraints.txt --editable '.[workers,dashboard,dev]'
	@touch $(STAMP)

$(ALL): $(STAMP)
	@echo "Installing the runtimes beside PyTorch Mobile into $(VENV) (390 MB, a minute) ..."
	$(BIN)/python -m pip install --quiet --constraint infra/constraints.txt --editable '.[workers,dashboard,dev,runtimes]'
	@touch $(ALL)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
