# Two commands: `make run` sets everything up and runs the agent on held-out tasks; `make test` checks the project.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_DIR ?= runs/first

.PHONY: run test check clean

run: $(VENV)/.installed
	$(BIN)/paraagent catalog build
	$(BIN)/paraagent run --split test-unseen --limit 280 --policy rules --out $(RUN_DIR) --overwrite

test: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("ParaAgent needs Python 3.11 or newer: set PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	command -v npm >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[npm]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
