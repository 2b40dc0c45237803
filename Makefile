# Every target sets itself up: a virtual environment in .venv with the exact versions of
# constraints.txt, made once and again only when those or pyproject.toml change.
# Another Python: make PYTHON=/path/to/python3.12 demo

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs
BENCH_STAMP := $(VENV)/.installed-bench
PIP := $(BIN)/python -m pip install -qq --no-input --disable-pip-version-check \
       --no-warn-script-location -c constraints.txt

.PHONY: help demo demo-live demo-many test check verify bench bench-live docs lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(STAMP) ## compare seven policies on one hour of a model server's traffic
	@$(BIN)/equipoise compare examples/code-assistant-queues.toml
	@echo
	@$(BIN)/equipoise compare examples/code-assistant.toml --report compare.html
	@echo
	@printf '%s\n' \
	  'next  your own traffic   $(BIN)/equipoise compare examples/code-assistant.toml --trace FILE.csv' \
	  '      your own scenario  $(BIN)/equipoise new mine.toml' \
	  '      the policies       $(BIN)/equipoise policies'

demo-live: $(STAMP) ## put five policies in front of four local servers, and predict what they do
	@$(BIN)/python -m examples.live.demo

demo-many: $(STAMP) ## put one, two and four dispatchers in front of eight servers that tell, or do not
	@$(BIN)/python -m examples.live.many

test: $(STAMP) ## run the tests, on two cores
	@$(BIN)/python -m pytest -n 2

check: $(STAMP) ## check format, lint, types and layers, then run the tests
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -n 2

verify: $(STAMP) ## run the slow statistical checks
	@$(BIN)/python -m pytest -n 2 -m 'slow and not alone'
	@$(BIN)/python -m pytest -m alone

bench: $(BENCH_STAMP) ## measure the kernels against C, SimPy, Ciw and cimba, in one run; ten minutes
	@$(BIN)/python -m bench

bench-live: $(BENCH_STAMP) ## measure the proxy beside HAProxy, nginx, Envoy and aiohttp; wants wrk, nginx
	@$(BIN)/python -m bench.live

docs: $(DOCS_STAMP) ## build the documentation into docs/_build/html
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo 'docs/_build/html/index.html'

lock: ## find the newest versions that fit and write them to constraints.txt
	@.ci/lock

clean: ## remove what the other targets made
	@rm -rf $(VENV) docs/_build dist build compare.html \
	  .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# The first of these that starts and is new enough: a version manager's stand-in may be on the
# path without the Python behind it.
$(STAMP): pyproject.toml constraints.txt
	@if ! $(BIN)/python -c '' 2>/dev/null; then \
	  found=; \
	  for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python); do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	      found=$$python; break; \
	    fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo 'Equipoise needs Python 3.11 or newer; none of $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python) is: make PYTHON=/path/to/python3.11' >&2; \
	    exit 1; \
	  fi; \
	  if ! "$$found" -m venv --clear $(VENV) >/dev/null 2>&1; then \
	    rm -rf $(VENV); \
	    echo "$$found cannot make a virtual environment: install its venv module (Debian, Ubuntu: apt-get install python3-venv)" >&2; \
	    exit 1; \
	  fi; \
	fi
	@echo "Installing into $(VENV) with $$($(BIN)/python -V), once; about a minute ..."
	@start=$$SECONDS; \
	 $(PIP) hatchling editables; \
	 $(PIP) --no-build-isolation -e '.[dev,live]'; \
	 touch $@; \
	 echo "Installed in $$((SECONDS - start)) s."; echo

$(DOCS_STAMP): $(STAMP)
	@echo 'Installing Sphinx ...'
	@$(PIP) --no-build-isolation -e '.[docs]'
	@touch $@

# What cannot be installed is left out of the tables, which say so.
$(BENCH_STAMP): $(STAMP)
	@echo 'Installing Ciw, cimba and aiohttp ...'
	@if $(PIP) --no-build-isolation -e '.[bench]'; then touch $@; \
	 else echo 'They do not install here: the bench goes on without them.'; fi
