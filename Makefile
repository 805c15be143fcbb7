VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Installing is due when pyproject.toml changed, and when the environment does not run or was made
# for another folder, as in a copied checkout.
HERE := import pathlib, pip, sys; \
  sys.exit(pathlib.Path("$(INSTALLED)").read_text().strip() != str(pathlib.Path.cwd()))
STALE := $(shell $(BIN)/python -c '$(HERE)' 2>/dev/null || echo stale)

.PHONY: help demo test check lint types format bench golden gpu-check stale

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(INSTALLED)  ## predict, analyse and compare two runs: the summary here, reports as HTML
	$(BIN)/nsysoffload demo

test: $(INSTALLED)  ## run all tests, in parallel
	$(BIN)/python -m pytest -n auto

check: lint types test  ## what CI runs: lint, types, tests

lint: $(INSTALLED)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

types: $(INSTALLED)
	$(BIN)/python -m mypy

format: $(INSTALLED)  ## sort imports, apply safe fixes and format
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

bench: $(INSTALLED)  ## measure time and memory on a generated trace of a million kernels
	$(BIN)/python -m benchmarks

golden: $(INSTALLED)  ## write the golden files and the example report anew, to review as a diff
	$(BIN)/python docs/pages.py
	$(BIN)/python docs/bundle.py
	$(BIN)/nsysoffload demo --bundled -o reports/examples/demo
	$(BIN)/python docs/screenshot.py
	$(BIN)/python -m pytest tests --golden

# Nothing is installed for it: the machine with the GPU may have no network.
WITH_JAX = $(or $(PYTHON),$(shell $(BIN)/python -c '' 2>/dev/null && echo $(BIN)/python),python3)

gpu-check:  ## record and check both policies on this machine's GPU, offline, within 10 minutes
	$(WITH_JAX) -m benchmarks.gpu_check -o $(or $(OUTPUT),reports/gpu-check)

RECENT := import sys; sys.exit(sys.version_info < (3, 12))

# A candidate counts once it has run: a launcher on PATH may stand for a Python that is not there.
define MAKE_VENV
usable() { "$$1" -c 'import ensurepip, venv; $(RECENT)' </dev/null 2>/dev/null; }; \
for python in $(PYTHON) python3.13 python3.12 python3.14 \
              "$$HOME"/.pyenv/versions/*/bin/python3.1[23]; do \
    usable "$$python" || continue; \
    echo "Making $(VENV) with $$("$$python" --version)"; \
    "$$python" -m venv --clear $(VENV) && exit; \
done; \
if command -v uv >/dev/null; then \
    rm -rf $(VENV); \
    uv venv --seed --python 3.12 $(VENV) && exit; \
fi; \
echo "No working Python 3.12 or later was found; install one with its venv module," \
     "or name it: make PYTHON=/path/to/python3.12" >&2; \
exit 1
endef

$(INSTALLED): pyproject.toml $(STALE)
	@$(BIN)/python -c 'import pip; $(RECENT)' 2>/dev/null || { $(MAKE_VENV); }
	@echo "Installing nsysoffload and its tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --editable '.[dev,predict,workloads]'
	@pwd -P > $@
