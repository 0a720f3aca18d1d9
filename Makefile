SHELL := /bin/bash
# A failed build piped through a filter must not count as a success.
.SHELLFLAGS := -e -u -o pipefail -c
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP = $$(cat $(VENV)/.pip 2> /dev/null || echo $(BIN)/python -m pip) --disable-pip-version-check --quiet
EXTRAS := cli demo test dev
# The doors that tests have to the engine: built by `make dev`, and again where they are.
TESTING = $(if $(wildcard $(VENV)/.doors),1,0)
# Options of ci/chaos.py.
CHAOS ?=
# Of the time of `make soak`.
PERCENT ?= 100
ENGINE := $(wildcard $(addprefix fastprod/_core/,*.pyx *.pxd */*.pyx */*.pxd c/*.h))

.PHONY: help dev packages doors runnable jars archive demo test accept chaos soak check mutants fuzz bench bench-spark wheel clean

define install
$(BIN)/python ci/requirements.py $(1) > $(VENV)/requirements.txt
$(PIP) install --no-compile --requirement $(VENV)/requirements.txt
endef

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

dev: $(VENV)/.tools ## make .venv, install what is needed, build the engine in place
	@$(MAKE) --no-print-directory --jobs=2 TESTING=1 packages doors

packages: $(VENV)/.installed
	@:

doors: $(VENV)/.doors
	@:

runnable: $(VENV)/.linked $(VENV)/.built
	@:

jars: $(VENV)/.linked
	ci/kafka resolve
	$(BIN)/python ci/spark_jars.py > /dev/null

# Without it Kafka starts as slowly as Java does.
archive: $(VENV)/.installed jars
	-$(BIN)/python ci/java_archive.py

# What the engine is built with. The pip of the Python that makes the venv serves it, too, if it can;
# one of its own takes longer than the rest, and comes with what `make dev` installs.
$(VENV)/.tools: pyproject.toml ci/requirements.py
	$(PYTHON) -c 'import sys; sys.exit("fastprod needs Python 3.11 or later, this is " + sys.version.split()[0] + "; set PYTHON" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV)
	pip="$(PYTHON) -m pip --python $(BIN)/python"; $$pip --version > /dev/null 2>&1 \
	    || { pip="$(BIN)/python -m pip"; $$pip --version > /dev/null 2>&1 || $(BIN)/python -m ensurepip; }; \
	    echo "$$pip" > $(VENV)/.pip
	$(call install,--build)
	touch $@

# What the package and its demo need: little, so that the first demo is soon there.
$(VENV)/.ready: $(VENV)/.tools
	$(call install,cli demo)
	touch $@

# Links the checkout into .venv; the engine is built by the rule below, which is incremental.
$(VENV)/.linked: $(VENV)/.ready setup.py
	FASTPROD_ONLY=none $(PIP) install --no-deps --no-build-isolation \
	    --config-settings editable_mode=compat --editable .
	touch $@

# Bytecode is made for all packages but their tests at once, by all cores; some have files of other
# Pythons, which cannot be compiled and are no loss. Ours too: where Python may not write any, as in
# containers, an import would compile each source again.
$(VENV)/.installed: $(VENV)/.linked
	$(call install,$(EXTRAS))
	$(PIP) install --no-compile pip
	-$(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib > /dev/null
	$(BIN)/python -m compileall -qq -j 0 fastprod
	touch $@

$(VENV)/.built: $(VENV)/.tools setup.py $(ENGINE)
	FASTPROD_TESTING=$(TESTING) $(BIN)/python setup.py --quiet build_ext --inplace
	touch $@
	$(if $(filter 1,$(TESTING)),sleep 0.01 && touch $(VENV)/.doors)

# After a demo alone the doors are missing; else they were built with the rest.
$(VENV)/.doors: $(VENV)/.built
	test $@ -nt $< || FASTPROD_TESTING=1 $(BIN)/python setup.py --quiet build_ext --inplace
	touch $@

demo: $(VENV)/.tools ## a million records to a broker of our own, read back, and what it took
	@$(MAKE) --no-print-directory --jobs=2 runnable
	$(BIN)/python -m fastprod demo

test: $(VENV)/.tools ## all tests but the long and slow ones; fetches Apache Kafka the first time
	@$(MAKE) --no-print-directory --jobs=3 TESTING=1 packages doors archive
	$(BIN)/python ci/run_tests.py -m "not long and not slow"

accept: dev ## the long acceptance runs
	ci/kafka resolve
	$(BIN)/python ci/accept.py

chaos: dev ## 20 minutes of faults, CHAOS="--cluster both --seconds 20"; takes up where it was
	ci/kafka resolve
	$(BIN)/python ci/chaos.py $(CHAOS)

soak: dev ## half an hour of load and restarts; nothing grows; PERCENT=10 takes a tenth of it
	ci/kafka resolve
	FASTPROD_SCALE=$(PERCENT) $(BIN)/python -m pytest -q -s -o faulthandler_timeout=0 -m long tests/interop/test_soak.py

check: dev ## formatting, types, layers, sizes, stubs
	ci/check

fuzz: dev ## ten million damaged inputs for every parser, under the sanitizers; takes up where it was
	ci/fuzz

mutants: dev ## faults put into the source one by one: each is caught by the tests
	$(BIN)/python ci/mutants.py

bench: dev ## the benchmarks, with their rivals, against their budgets; plots in docs/benchmarks
	ci/kafka resolve
	bench/run --plots docs/benchmarks

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
	rm -f $(VENV)/.built $(VENV)/.doors $(VENV)/.linked
	find fastprod/_core -name '*.so' -delete
	find fastprod ci tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
