# make run, make test, make check, make docs, make reference, make chaos, make bench, make conformance, make fuzz. PYTHON=python3.12 chooses the interpreter.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
READY := $(VENV)/.ready-$(VERSION)
BENCH := .venv-bench
BENCH_READY := $(BENCH)/.ready-$(VERSION)

DIFY_PYTHON ?= python3.12
DIFY := .venv-dify
PHOENIX := .venv-phoenix
RECORDED := $(wildcard ../shared/data/chat2workflow/may/*.json ../shared/data/chat2workflow/apr/*.json)

.PHONY: run test check docs reference chaos bench conformance fuzz lock clean

run: $(READY)
	@$(BIN)/operad run configs/release_credits.yaml --file test/example/data/NEWS

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory docs

docs: $(READY) # the site, into build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

reference: $(READY) # docs/reference, from the declarations
	$(BIN)/python docs/make/reference.py

chaos: $(READY) # an hour of kills
	$(BIN)/python test/durability/chaos.py

bench: $(BENCH_READY) # in an environment of its own, for the field beside ours is large
	$(BENCH)/bin/python test/benchmark/bench_insights.py
	$(BENCH)/bin/python test/benchmark/bench_engine.py --readme README.md README.zh-CN.md --page docs/performance.md
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

conformance: $(READY) $(DIFY)/.ready $(PHOENIX)/.ready # Dify's engine and Phoenix need Python 3.12, and are kept apart
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
	@echo "setting up $* with Python $(VERSION)" >&2
	@$(PYTHON) -m venv --clear $*
	@$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $(filter %.lock,$^)
	@$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

fuzz: $(READY) # hostile inputs for every loader and parser, for ten minutes
	$(BIN)/python test/fuzz/fuzz.py --seconds 600

lock: # needs uv; honours the overrides in pyproject.toml, writes versions only
	uv pip compile --quiet --universal --python-version 3.10 --all-extras --group dev \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.10 --extra documents --extra durable --extra evaluate --extra media --extra web --group dev --group bench --constraints requirements.lock \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml -o requirements-bench.lock
	echo "arize-phoenix>=20" | uv pip compile --quiet --universal --python-version 3.12 --only-binary :all: \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links - -o requirements-phoenix.lock

clean:
	rm -rf $(VENV) $(BENCH) $(DIFY) $(PHOENIX) build dist .pytest_cache .ruff_cache
