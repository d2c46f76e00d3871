# Every target does its own set-up; a fresh machine needs git, make and Python 3.11 or newer. `make help` lists them.

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format lint types house bench fmt clean

BIN := .venv/bin
# Many tests wait for processes and servers: two workers more than there are cores keep the cores busy.
WORKERS := $(shell expr 2 + `getconf _NPROCESSORS_ONLN`)

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/make \1\t\2/' | expand -t 14

setup: ## fetch uv if need be, and make .venv what uv.lock says
	@scripts/setup

demo: setup ## run docs/examples/demo.dot on the model on board (no key, no network)
	@scripts/demo

test: setup ## run every test
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup -rs

check: format lint types house ## formatting, lint, types, architecture, snippets of the documentation

format: setup
	$(BIN)/ruff format --check

lint: setup
	$(BIN)/ruff check

types: setup
	$(BIN)/mypy

house: setup
	$(BIN)/python tests/project/test_sizes.py
	$(BIN)/pytest tests/project/test_architecture.py tests/project/test_words.py tests/project/test_docs.py -n auto

bench: setup ## measure import time, memory, and milliseconds a pipeline node; kill runs at random for minutes
	$(BIN)/python tests/bench/run.py
	ATTRACTOR_KILL_SECONDS=120 $(BIN)/pytest -q -p no:xdist tests/attractor/test_kill_campaign.py

fmt: setup ## format the code and mend what lint can mend
	$(BIN)/ruff check --fix --exit-zero
	$(BIN)/ruff format

clean: ## remove what the other targets made
	rm -rf .venv .uv .demo dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
