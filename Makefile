# One command each, from a fresh clone: `make demo` and `make test` create .venv, install and run.
# Only git, make and a Python of at least 3.11 are needed.

VENV ?= .venv
DATA ?=
# Rows of a made-up table for the demo, 1,000,000 by default.
ROWS ?=
# Extra requirements for the environment, e.g. PINS="pymc==5.28.*".
PINS ?=
# Which tests `make test` runs: MARKS=slow runs the others, MARKS= all.
MARKS ?= not slow
# Whose tables `make numbers` prints again, e.g. PAGE=which_step, or PAGE=which_step/nuts for one of them.
PAGE ?=
# How long `make fuzz` runs.
MINUTES ?= 30
# The module whose mutants are tried, e.g. MODULE=acceptance/penalty.
MODULE ?=
# Give PYTHON=/path/to/python to choose; otherwise the first of these that runs and is new enough.
PYTHON ?=
CANDIDATES := python3.13 python3.12 python3.11 python3

BIN := $(VENV)/bin
WORKERS ?= 2
# The workers are the parallelism; a BLAS pool in each would fight over the same cores.
export OMP_NUM_THREADS ?= 1
# The tests build hundreds of models on two versions of PyMC: their machine code is several times what is kept by default,
# and what one run leaves would be removed before the next run reads it.
export PYMC_AUSTERITY_CACHE_MB ?= 8000

# A worker keeps the memory that a test has given back: to ask the system for it again took a tenth of the time.
test doctest recipes: export MALLOC_TRIM_THRESHOLD_ ?= 1073741824
test doctest recipes: export MALLOC_TOP_PAD_ ?= 67108864
test doctest recipes: export MALLOC_MMAP_THRESHOLD_ ?= 33554432

.DEFAULT_GOAL := help
.PHONY: help python demo numbers test golden calibrate fuzz mutants lint format types doctest recipes docs notebooks notebooks-refresh package bench clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# A candidate is *run*: version managers leave shims on the PATH that exist and fail, and some distributions
# ship a Python without the modules that make an environment.
define FIND_PYTHON
found=; tried=; \
for candidate in $(or $(PYTHON),$(CANDIDATES)); do \
  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
  then found="$$candidate"; break; fi; \
  version=`"$$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null` || version="does not run"; \
  tried="$$tried\n  $$candidate: $$version"; \
done; \
if [ -z "$$found" ]; then \
  printf "No usable Python was found. Python 3.11 or newer with the venv and ensurepip modules is needed.\nTried:$$tried\nInstall one (on Debian and Ubuntu also python3-venv), or name one: make PYTHON=/path/to/python ...\n" >&2; \
  exit 1; \
fi
endef

python: ## Show which Python `make` would use
	@$(FIND_PYTHON); echo "$$found"

$(BIN)/python:
	@$(FIND_PYTHON); \
	echo "Creating $(VENV) with $$found (`$$found --version`)"; "$$found" -m venv "$(VENV)"

# The stamps say what was installed and when; a changed pyproject.toml installs again, anything else does not.
# pip would compile the modules one after the other, the tests of every package too: half a minute. What is written for
# other versions of Python does not compile, which is no failure.
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --no-compile --editable
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x '/tests/' $(VENV)/lib || true
$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(INSTALL) ".[demo,test]" $(foreach pin,$(PINS),"$(pin)")
	$(COMPILE)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(INSTALL) ".[dev]" $(foreach pin,$(PINS),"$(pin)")
	$(COMPILE)
	@touch $@ $(VENV)/.installed-test

demo: $(VENV)/.installed-test ## A regression on 1,000,000 rows by the recommended step and by NUTS; ROWS=, or DATA=file.npz for your own X and y
	$(BIN)/python -m pymc_austerity.demo $(if $(DATA),--data "$(DATA)") $(if $(ROWS),--rows $(ROWS))

numbers: $(VENV)/.installed-dev ## The tables of the documentation and how old they are; PAGE=which_step prints those of a page again
	PAGE="$(PAGE)" $(BIN)/python benchmarks/stored_numbers.py

# tests/conftest.py puts those first that take longest.
test: $(VENV)/.installed-test ## The tests but for those marked slow; MARKS=slow for these, MARKS= for all
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=50 -m "$(MARKS)"

golden: $(VENV)/.installed-test ## Renew the draws that later runs are compared with
	$(BIN)/python tests/golden.py renew

calibrate: $(VENV)/.installed-dev ## Simulation-based calibration of the steps, 500 data sets each; takes hours and goes on where it stopped
	$(BIN)/python benchmarks/calibrate.py --figure output/calibrate/ecdf.png

fuzz: $(VENV)/.installed-test ## Random models against PyMC's density, bounds and steps, for MINUTES=30
	$(BIN)/python tests/fuzz/run.py --minutes "$(MINUTES)"

mutants: $(VENV)/.installed-test ## Plant mistakes in MODULE=acceptance/penalty and see whether its tests notice; takes long
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable ".[mutants]"
	$(BIN)/python tests/mutants.py "$(MODULE)"

lint: $(VENV)/.installed-dev ## Style, formatting, which room may import which, and the workflow's permissions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet .github

format: $(VENV)/.installed-dev ## Rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.installed-dev ## Static types of the package
	$(BIN)/mypy

# Pages first, which take longest: a worker that began with one at the end would go on alone.
DOCTEST := $(BIN)/python -m pytest --doctest-modules --doctest-glob="*.md"
doctest: $(VENV)/.installed-dev ## The examples in docstrings, the README and the documentation, but for the recipes
	$(DOCTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
	  README.md $(filter-out docs/recipes.md,$(wildcard docs/*.md)) pymc_austerity

recipes: $(VENV)/.installed-dev ## The recipes of the documentation, which take as long as all other examples
	$(DOCTEST) docs/recipes.md

docs: $(VENV)/.installed-dev ## Build the documentation into docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -E -W --keep-going -b html docs docs/_build/html

notebooks: $(VENV)/.installed-dev ## Execute every notebook with small settings, leaving the files as they are
	printf '%s\0' notebooks/*.ipynb | PMA_SMALL=1 xargs -0 -n 1 -P $(WORKERS) $(BIN)/jupyter execute

notebooks-refresh: $(VENV)/.installed-dev ## Execute every notebook in full and store the outputs
	$(BIN)/jupyter execute --inplace notebooks/*.ipynb

package: ## Build wheel and sdist, check and install them, and test what was installed
	bash .ci/package

# These take hours, or a folder.
ALONE := $(addprefix benchmarks/,calibrate.py choices.py choices_figure.py stored_numbers.py)

bench: $(VENV)/.installed-dev ## Print the benchmarks
	@for script in $(filter-out $(ALONE),$(shell grep -l __main__ benchmarks/*.py)); do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

clean: ## Remove environments, caches and everything generated
	rm -rf .venv .venv-* build dist output docs/_build docs/generated docs/notebooks docs/jupyter_execute .ci/logs
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
