# make run, make test, make test-all, make test-pythons, make installs, make check, make docs, make reference, make chaos, make bench, make conformance, make fuzz.
# PYTHON=python3.12 chooses the interpreter, WORKERS=4 the processes of the tests, SEED=17 their order.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
INTERPRETER := $(shell $(PYTHON) -c 'import sys; print(sys.executable)')
# what users need; and what tests and checks need besides
READY := $(VENV)/.ready-$(VERSION)
DEV_READY := $(VENV)/.ready-dev-$(VERSION)

# more processes than the two cores that the suite is tuned for: some tests wait
WORKERS ?= 3
SEED := $(or $(SEED),$(shell date +%s))

BENCH := .venv-bench
BENCH_READY := $(BENCH)/.ready-$(VERSION)

# uv where it is, pip otherwise; without dependencies, for the lock names them all: the same set everywhere; and not
# compiled, for most of it is never imported
ifneq ($(shell command -v uv 2>/dev/null),)
INSTALLER := uv
CREATE = uv venv --quiet --python $(INTERPRETER)
INSTALL = uv pip install --quiet --python $(@D)/bin/python --no-deps
else
INSTALLER := pip
CREATE = $(INTERPRETER) -m venv
INSTALL = $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
endif

DIFY_PYTHON ?= python3.12
DIFY := .venv-dify
PHOENIX := .venv-phoenix
RECORDED := $(wildcard ../shared/data/chat2workflow/may/*.json ../shared/data/chat2workflow/apr/*.json)

.PHONY: run test test-all test-pythons installs check docs reference chaos bench conformance fuzz lock clean

run: $(READY)
	@$(BIN)/operad run configs/release_credits.yaml --file test/example/data/NEWS

test: SELECTED = -m "not slow"
# compiled files are kept: collecting takes half the time, and each process that a test begins reads them
test test-all: export PYTHONDONTWRITEBYTECODE =
test test-all: $(DEV_READY)
	@start=$$(date +%s); $(BIN)/python -m pytest -n $(WORKERS) --randomly-seed=$(SEED) $(SELECTED) $(TESTS); status=$$?; \
	  echo "make $@: $$(( $$(date +%s) - start )) s; the same order again: make $@ SEED=$(SEED)"; exit $$status

PYTHONS := $(foreach v,3.10 3.11 3.12 3.13,$(or $(lastword $(wildcard $(HOME)/.pyenv/versions/$(v).*/bin/python$(v))),python$(v)))

test-pythons: # on every other Python that is installed, each in an environment of its own
	@failed=; for python in $(filter-out %python$(VERSION),$(PYTHONS)); do \
	  if $$python -V >/dev/null 2>&1; \
	  then echo "$$python:"; $(MAKE) --no-print-directory test PYTHON=$$python VENV=.venv-$${python##*python} TESTS="$(TESTS)" || failed="$$failed $$python"; \
	  else echo "$$python is not installed: left out"; fi; \
	done; if [ -n "$$failed" ]; then echo "failed on:$$failed" >&2; exit 1; fi

installs: $(DEV_READY) # the wheel with plain pip on every Python that is installed, in empty environments
	@$(BIN)/python test/installs.py $(PYTHONS)

check: $(DEV_READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory docs

docs: $(DEV_READY) # the site, into build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

reference: $(DEV_READY) # docs/reference, from the declarations
	$(BIN)/python docs/make/reference.py

chaos: $(DEV_READY) # an hour of kills
	$(BIN)/python test/durability/chaos.py

bench: $(BENCH_READY) # in an environment of its own, for the field beside ours is large
	$(BENCH)/bin/python test/benchmark/bench_insights.py
	$(BENCH)/bin/python test/benchmark/bench_engine.py --readme README.md README.zh-CN.md --page docs/performance.md
	$(BENCH)/bin/python test/benchmark/bench_startup.py --page docs/performance.md
	$(BENCH)/bin/python test/benchmark/bench_rounds.py
	$(BENCH)/bin/python test/benchmark/bench_durable.py --page docs/performance.md
	$(BENCH)/bin/python test/benchmark/bench_load.py --page docs/performance.md
	$(BENCH)/bin/python test/benchmark/bench_knowledge.py
	$(BENCH)/bin/python test/benchmark/bench_nodes.py
	$(BENCH)/bin/python test/benchmark/bench_formats.py
	$(BENCH)/bin/python test/benchmark/bench_optimise.py
	$(BENCH)/bin/python test/benchmark/run_recorded.py
	$(BENCH)/bin/python test/benchmark/bench_worfeval.py
	$(BENCH)/bin/python test/benchmark/bench_worfbench.py
	$(BENCH)/bin/python test/benchmark/bench_comfyflow.py
	$(BENCH)/bin/python test/benchmark/bench_pass.py
	$(BENCH)/bin/python test/benchmark/bench_repair.py

conformance: $(DEV_READY) $(DIFY)/.ready $(PHOENIX)/.ready # Dify's engine and Phoenix need Python 3.12, and are kept apart
	$(BIN)/python test/benchmark/conformance.py --dify-python $(DIFY)/bin/python $(RECORDED)
	$(BIN)/python test/benchmark/conformance_phoenix.py --phoenix $(PHOENIX)/bin/phoenix

$(DIFY)/.ready: requirements-conformance.lock
$(PHOENIX)/.ready: requirements-phoenix.lock
$(DIFY)/.ready $(PHOENIX)/.ready:
	@echo "setting up $(@D) with $(DIFY_PYTHON)" >&2
	@$(DIFY_PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $<
	@touch $@

$(READY): requirements.lock
$(BENCH_READY): requirements-bench.lock
%/.ready-$(VERSION): pyproject.toml
	@case "$(VERSION)" in 3.10|3.11|3.12|3.13) ;; *) \
	  echo "operad needs Python 3.10 to 3.13; $(PYTHON) is '$(VERSION)'. Try: make PYTHON=python3.12" >&2; exit 1;; esac
	@echo "installing $(filter %.lock,$^) into $* with $(INSTALLER), for Python $(VERSION)" >&2
	@$(CREATE) --clear $*
	@$(INSTALL) -r $(filter %.lock,$^) -e .
	@touch $@

$(DEV_READY): requirements-dev.lock $(READY)
	@echo "installing $< into $(VENV) with $(INSTALLER), for tests and checks" >&2
	@$(INSTALL) -r $<
	@touch $@

fuzz: $(DEV_READY) # hostile inputs for every loader and parser, for ten minutes
	$(BIN)/python test/fuzz/fuzz.py --seconds 600

COMPILE := uv pip compile --quiet --universal --no-header --no-annotate --no-emit-index-url --no-emit-find-links

lock: # needs uv; honours the overrides in pyproject.toml, writes versions only
	$(COMPILE) --python-version 3.10 --all-extras --group dev --group awel pyproject.toml -o requirements-dev.lock
	$(COMPILE) --python-version 3.10 --extra embedded --group awel --constraints requirements-dev.lock pyproject.toml -o requirements.lock
	$(COMPILE) --python-version 3.10 --extra documents --extra durable --extra evaluate --extra media --extra web --group dev --group awel --group bench \
	  --constraints requirements-dev.lock pyproject.toml -o requirements-bench.lock
	echo "arize-phoenix>=20" | $(COMPILE) --python-version 3.12 --only-binary :all: - -o requirements-phoenix.lock

clean:
	rm -rf $(VENV) .venv-3.* $(BENCH) $(DIFY) $(PHOENIX) build dist .pytest_cache .ruff_cache
