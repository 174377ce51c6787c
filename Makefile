# CONTRIBUTING.md lists the main targets. PYTHON=python3.12 selects the interpreter, WORKERS=4 the number of test processes,
# SEED=17 the order of the tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
INTERPRETER := $(shell $(PYTHON) -c 'import sys; print(sys.executable)')
# 3.14 is expected to work: the lock has wheels for it, but no machine of ours has tested it
TESTED := 3.11 3.12 3.13
ACCEPTED := $(TESTED) 3.14
UV := $(shell command -v uv 2>/dev/null)
# uv finds or fetches a tested Python if python3 is none
ifeq ($(origin PYTHON)$(filter $(VERSION),$(ACCEPTED))$(if $(UV),,none),file)
VERSION := 3.13
INTERPRETER := 3.13
endif
# packages for users; further packages for tests and checks
READY := $(VENV)/.ready-$(VERSION)
DEV_READY := $(VENV)/.ready-dev-$(VERSION)

# more processes than cores (the suite is tuned for two), because some tests wait
WORKERS ?= 4
SEED := $(or $(SEED),$(shell date +%s))

BENCH := .venv-bench
BENCH_READY := $(BENCH)/.ready-$(VERSION)

# uv if installed, otherwise pip; without dependencies, because the lock lists all packages; without compiling, because
# most modules are never imported
ifneq ($(UV),)
INSTALLER := uv
CREATE = uv venv --quiet --python $(INTERPRETER)
INSTALL = uv pip install --quiet --python $(@D)/bin/python --no-deps
else
INSTALLER := pip
CREATE = $(INTERPRETER) -m venv
INSTALL = $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
endif

AUDIT := .venv-audit
DIFY_PYTHON ?= python3.12
DIFY := .venv-dify
PHOENIX := .venv-phoenix
MODELS := .venv-models
RECORDED := $(wildcard ../shared/data/chat2workflow/may/*.json ../shared/data/chat2workflow/apr/*.json)

.PHONY: run test test-all test-pythons release-check check docs reference studio film chaos bench conformance fuzz lock audit clean

run: $(READY)
	@$(BIN)/operad run test/example/release_credits/release_credits.yaml --trust --file test/example/data/NEWS

test: SELECTED = -m "not slow"
# worksteal gives each process whole files, so that what the tests of a file share is made once
# compiled files are kept: they halve the time of collection, and processes started by tests read them
test test-all: export PYTHONDONTWRITEBYTECODE =
test test-all: $(DEV_READY)
	@start=$$(date +%s); $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --randomly-seed=$(SEED) $(SELECTED) $(TESTS); status=$$?; \
	  echo "make $@: $$(( $$(date +%s) - start )) s; to repeat this order: make $@ SEED=$(SEED)"; exit $$status

PYTHONS := $(foreach v,$(TESTED),$(or $(lastword $(wildcard $(HOME)/.pyenv/versions/$(v).*/bin/python$(v))),python$(v)))

test-pythons: # on every other installed Python, each in its own environment
	@failed=; for python in $(filter-out %python$(VERSION),$(PYTHONS)); do \
	  if $$python -V >/dev/null 2>&1; \
	  then echo "$$python:"; $(MAKE) --no-print-directory test PYTHON=$$python VENV=.venv-$${python##*python} TESTS="$(TESTS)" || failed="$$failed $$python"; \
	  else echo "$$python is not installed: skipped"; fi; \
	done; if [ -n "$$failed" ]; then echo "failed on:$$failed" >&2; exit 1; fi

release-check: $(DEV_READY) # the wheel and the sdist, in empty environments of every installed Python
	@$(BIN)/python test/release_check.py $(PYTHONS)

check: $(DEV_READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --threads  # as many as cores: half the time
	$(BIN)/lint-imports
	$(BIN)/python docs/make/prose.py
	$(MAKE) --no-print-directory docs

docs: $(DEV_READY) # builds the site in build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

reference: $(DEV_READY) # writes docs/reference from the declarations
	$(BIN)/python docs/make/reference.py

studio: # builds all pages from their sources, and prints their sizes; needs Node.js
	cd server/studio/web && npm ci --no-audit --no-fund && npm run build

film: $(DEV_READY) # writes the film of the README, docs/film.webp; needs Chromium
	$(BIN)/python docs/make/film.py

chaos: $(DEV_READY) # injects faults into durable runs for an hour
	$(BIN)/python test/durability/chaos.py --page docs/fault_injection.md

bench: $(BENCH_READY) # in its own environment, because other frameworks are large; fails if a ratio got worse by a fifth
	@failed=; while read -r each; do $(BENCH)/bin/python test/benchmark/$$each </dev/null || failed="$$failed $${each%% *}"; done \
	  < test/benchmark/all.txt; if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

conformance: $(DEV_READY) $(DIFY)/.ready $(PHOENIX)/.ready $(MODELS)/.ready # others need Python 3.12, in environments of their own
	$(BIN)/python test/benchmark/conformance.py --dify-python $(DIFY)/bin/python $(RECORDED)
	$(BIN)/python test/benchmark/conformance_dify.py --dify-python $(DIFY)/bin/python
	$(BIN)/python test/benchmark/conformance_phoenix.py --phoenix $(PHOENIX)/bin/phoenix
	$(BIN)/python test/benchmark/conformance_models.py --peers $(MODELS)/bin/python --page docs/model_conformance.md

$(DIFY)/.ready: requirements-conformance.lock
$(PHOENIX)/.ready: requirements-phoenix.lock
$(MODELS)/.ready: requirements-models.lock
$(DIFY)/.ready $(PHOENIX)/.ready $(MODELS)/.ready:
	@echo "setting up $(@D) with $(DIFY_PYTHON)" >&2
	@$(DIFY_PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

$(READY): requirements.lock
$(BENCH_READY): requirements-bench.lock
%/.ready-$(VERSION): pyproject.toml
	@case " $(ACCEPTED) " in *" $(VERSION) "*) ;; *) \
	  echo "operad needs Python 3.11 to 3.14; $(PYTHON) is '$(VERSION)'. Try: make PYTHON=python3.13, or install uv" >&2; exit 1;; esac
	@case " $(TESTED) " in *" $(VERSION) "*) ;; *) echo "Python $(VERSION) is expected to work; tested are $(TESTED)" >&2;; esac
	@echo "installing $(filter %.lock,$^) into $* with $(INSTALLER), for Python $(VERSION)" >&2
	@$(CREATE) --clear $*
	@$(INSTALL) --require-hashes -r $(filter %.lock,$^)
	@$(INSTALL) -e .
	@touch $@

$(DEV_READY): requirements-dev.lock $(READY)
	@echo "installing $< into $(VENV) with $(INSTALLER), for tests and checks" >&2
	@$(INSTALL) --require-hashes -r $<
	@touch $@

fuzz: $(DEV_READY) # fuzzes every loader and parser for ten minutes
	$(BIN)/python test/fuzz/fuzz.py --seconds 600

COMPILE := uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links

lock: # needs uv; applies the overrides in pyproject.toml; writes versions and hashes only
	$(COMPILE) --python-version 3.11 --all-extras --group dev --group awel --group weights pyproject.toml -o requirements-dev.lock
	$(COMPILE) --python-version 3.11 --extra embedded --group awel --group weights --constraints requirements-dev.lock pyproject.toml -o requirements.lock
	$(COMPILE) --python-version 3.11 --extra documents --extra embedded --extra evaluate --extra media --extra postgres --extra web \
	  --extra serve --group dev --group awel --group weights --group bench --constraints requirements-dev.lock pyproject.toml -o requirements-bench.lock
	echo "arize-phoenix>=20" | $(COMPILE) --python-version 3.12 --only-binary :all: - -o requirements-phoenix.lock
	printf '%s\n' "openai-agents>=0.24" "pydantic-ai-slim[anthropic,google,mistral,openai]>=2.68,<3" "anthropic>=1,<3" "google-genai<3" "mistralai<4" \
	  | $(COMPILE) --python-version 3.12 - -o requirements-models.lock
	echo "pip-audit>=2.10" | $(COMPILE) --python-version 3.11 - -o requirements-audit.lock

AUDITED := $(filter-out requirements-audit.lock,$(wildcard requirements*.lock))

audit: $(AUDIT)/.ready # looks each package of the locks up in PyPI's advisories, with pip-audit; needs pypi.org
	@failed=; for lock in $(AUDITED); do echo "$$lock:"; \
	  $(AUDIT)/bin/pip-audit --strict --require-hashes --disable-pip --progress-spinner off -r $$lock || failed="$$failed $$lock"; done; \
	  if [ -n "$$failed" ]; then echo "make audit: the output above names a package with an advisory, or says that pypi.org cannot be reached, so that nothing was checked:$$failed" >&2; exit 1; fi

$(AUDIT)/.ready: requirements-audit.lock
	@$(INTERPRETER) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

clean:
	rm -rf $(VENV) .venv-3.* $(AUDIT) $(BENCH) $(DIFY) $(PHOENIX) build dist .pytest_cache .ruff_cache
