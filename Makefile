SHELL := /bin/bash
# A failed build piped through a filter must not count as a success.
.SHELLFLAGS := -e -u -o pipefail -c
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
EXTRAS := demo test dev
ENGINE := $(wildcard fastprod/_core/*.pyx fastprod/_core/*.pxd fastprod/_core/c/*.h)

.PHONY: help dev demo test accept check mutants bench bench-spark wheel clean

define install
$(BIN)/python ci/requirements.py $(1) > $(VENV)/requirements.txt
$(PIP) install --requirement $(VENV)/requirements.txt
endef

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

dev: $(VENV)/.installed $(VENV)/.built ## make .venv, install what is needed, build the engine in place

# What the package and its demo need: little, so that the first demo is soon there.
$(VENV)/.ready: pyproject.toml ci/requirements.py
	$(PYTHON) -c 'import sys; sys.exit("fastprod needs Python 3.11 or later, this is " + sys.version.split()[0] + "; set PYTHON" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(call install,demo)
	touch $@

$(VENV)/.installed: $(VENV)/.ready
	$(call install,$(EXTRAS))
	touch $@

# Links the checkout into .venv; the engine is built by the rule below, which is incremental.
$(VENV)/.linked: $(VENV)/.ready pyproject.toml setup.py
	FASTPROD_ONLY=none $(PIP) install --no-deps --no-build-isolation \
	    --config-settings editable_mode=compat --editable .
	touch $@

$(VENV)/.built: $(VENV)/.linked setup.py $(ENGINE)
	$(BIN)/python setup.py --quiet build_ext --inplace --parallel 2
	touch $@

demo: $(VENV)/.built ## a million records to a broker of our own, read back, and what it took
	$(BIN)/python -m fastprod demo

test: dev ## all tests but the long ones; fetches Apache Kafka the first time
	ci/kafka resolve
	$(BIN)/python ci/spark_jars.py > /dev/null
	$(BIN)/python ci/run_tests.py -m "not long"

accept: dev ## the long acceptance runs
	ci/kafka resolve
	$(BIN)/python ci/accept.py

check: dev ## formatting, types, layers, sizes, stubs
	ci/check

mutants: dev ## faults put into the source one by one: each is caught by the tests
	$(BIN)/python ci/mutants.py

bench: dev ## the benchmarks, with their rivals, against their budgets
	ci/kafka resolve
	bench/run

bench-spark: dev ## our Spark sink beside Spark's own, against the limits; takes up where it was
	ci/kafka resolve
	bench/spark_run

wheel: dev ## build sdist and wheel, and try the wheel without a compiler
	rm -rf dist
	$(BIN)/python -m build --outdir dist . > $(VENV)/wheel.log 2>&1 \
	    || { tail -n 60 $(VENV)/wheel.log; exit 1; }
	$(BIN)/python ci/check_wheel.py dist/*.whl

clean: ## remove what was built; .venv stays
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	rm -f fastprod/_core/*.so $(VENV)/.built $(VENV)/.linked
	find fastprod ci tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
