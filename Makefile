# Two commands: `make run` sets everything up and runs the agent on held-out tasks; `make test` checks the project
# (`make test-models` what needs PyTorch).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODELS := .venv-models
TORCH ?= torch
RUN_DIR ?= runs/first

.PHONY: run run-local test test-models clean

run: $(VENV)/.installed
	$(BIN)/paraagent catalog build
	$(BIN)/paraagent run --split test-unseen --limit 280 --policy rules --out $(RUN_DIR) --overwrite

# The same with the embedded language model and the adapter that comes with it.
run-local: $(MODELS)/.installed
	$(MODELS)/bin/paraagent catalog build
	$(MODELS)/bin/paraagent run --split test-unseen --limit 70 --policy local --out $(RUN_DIR)-local --overwrite

test: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

# Models on this machine and training; PyTorch is large, so it has an environment of its own.
test-models: $(MODELS)/.installed
	$(MODELS)/bin/pytest tests/test_local_*.py tests/test_protocol_lark.py tests/test_cli_local.py tests/test_train_*.py

$(MODELS)/.installed: $(MODELS)/bin/python pyproject.toml
	$(MODELS)/bin/python -m pip install --quiet --disable-pip-version-check '$(TORCH)'
	$(MODELS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev,train]'
	command -v npm >/dev/null 2>&1 || $(MODELS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[npm]'
	touch $@

%/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("ParaAgent needs Python 3.11 or newer: set PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $*

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	command -v npm >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[npm]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(MODELS) .mypy_cache .pytest_cache .ruff_cache .hypothesis
