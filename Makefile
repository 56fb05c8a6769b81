# Every target brings its own environment: a virtual environment from the pinned constraints.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Tests wait for disks and for processes that they kill at least as much as they compute.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(16, 2 * (os.cpu_count() or 1)))')
EXTRAS := train,parquet,plot,postgres,reasoning,smol,zstd,dev

# The work here is many small tensors: more threads than one only get in each other's way.
export OMP_NUM_THREADS ?= 1
# What is imported is compiled once and kept: where that is forbidden, every process that a test
# starts compiles the thousands of files of PyTorch and transformers again, for ten seconds and more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo picture test check faults bench gain tiny dist clean help

help:            ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

# Without compiling what nobody imports: a third of the time.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 10) else f"Recollect needs Python 3.10 or newer, this is {v[0]}.{v[1]}: make PYTHON=python3.12 ...")'
	@echo 'Setting up $(VENV), once: downloading PyTorch and the rest takes minutes, in which pip says nothing.'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $(STAMP)

demo: $(STAMP)   ## replay against its twin on the service desks, offline, minutes
	$(BIN)/recollect compare demo --seeds 3 --target 0.5 --jobs 2

picture: demo    ## the READMEs' picture and its figures, from what make demo trains
	$(BIN)/python scripts/draw_demo.py

tiny: $(STAMP)   ## rebuild the built-in model from its seed (half an hour)
	$(BIN)/python scripts/make_tiny.py

test: $(STAMP)   ## the tests, with the quick part of the fault suite
	$(BIN)/python -m pytest -n $(WORKERS) --durations 20 --durations-min 5

check: $(STAMP)  ## style, types and the order of the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

faults: $(STAMP) ## the whole fault suite and all other long tests (thousands of kills, half an hour)
	$(BIN)/python -m pytest tests/faults -m "long or not long" -s --timeout 3600
	$(BIN)/python -m pytest tests --ignore tests/faults -m long --timeout 3600

# Nothing here installs cpprb and TorchRL: without both, draw.py prints its table and writes nothing.
bench: $(STAMP)  ## store, promises, draw, packing: benchmarks/results/NAME.json (draw's: with cpprb and TorchRL only)
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/promises.py
	$(BIN)/python benchmarks/draw.py
	$(BIN)/python benchmarks/packing.py

gain: $(STAMP)   ## what replay buys: its benchmarks, hours on two cores
	$(BIN)/python benchmarks/replay_gain.py --jobs 2
	$(BIN)/python benchmarks/replay_settings.py
	$(BIN)/python benchmarks/ageing.py

dist:            ## build wheel and sdist, install each into a fresh environment and use it
	$(PYTHON) scripts/check_dist.py

clean:           ## remove what the targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
