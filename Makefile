# All targets are non-interactive. Results go to stdout, logs to stderr.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
DEMO := .venv-demo
BIN := $(VENV)/bin
PIP_OPTIONS := --quiet --disable-pip-version-check --no-input
# Whatever a plugin's or a package's build needs is pinned, too.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt

SEEDS ?= 300
BASE ?= 0
# Where the 60 seeds begin that each `make test` draws anew.
ifndef FRESH_BASE
FRESH_BASE := $(shell date +%s)
endif
export FRESH_BASE
JOBS ?= 2
# Mistakes put in by machine: how many, drawn by what (the day), in which room alone.
MUTANTS ?= 200
ROOM ?=
SECONDS ?= 5
TARGET ?=
OUT ?= bench.json
PART ?=
ARGS ?=
SPARK ?=

REQUIREMENTS := constraints.txt requirements-dev.txt pyproject.toml $(wildcard plugins/*/pyproject.toml)

.PHONY: setup demo test fresh forget coverage check interop slow sim mutate scale fuzz bench bench-quick elsewhere FORCE

setup: $(VENV)/.ready
	@echo "setup: ready"

# The interpreter is a requirement like any other: another one means another environment.
build/python: FORCE
	@mkdir -p build; echo "$(PYTHON)" | cmp -s - $@ || echo "$(PYTHON)" > $@

$(VENV)/.ready: $(REQUIREMENTS) build/python
	@sh .ci/environment "$(PYTHON)" $(VENV) >&2
	@$(BIN)/python -m pip install $(PIP_OPTIONS) -r requirements-dev.txt >&2
	@touch $@

$(DEMO)/.ready: constraints.txt pyproject.toml build/python
	@sh .ci/environment "$(PYTHON)" $(DEMO) >&2
	@$(DEMO)/bin/python -m pip install $(PIP_OPTIONS) -e . >&2
	@touch $@

$(DEMO)/.spark: $(DEMO)/.ready plugins/spark/pyproject.toml
	@$(DEMO)/bin/python -m pip install $(PIP_OPTIONS) -e plugins/spark >&2
	@touch $@

# With SPARK=1 (and Java) revenue is counted, too. What an earlier demo's broker held is gone, and so is its checkpoint.
demo: $(DEMO)/.ready $(if $(SPARK),$(DEMO)/.spark)
	@$(if $(SPARK),rm -rf build/demo-revenue)
	@exec $(DEMO)/bin/framework-app dev example_app $(if $(SPARK),--overlay example_app/with-revenue.yaml)

# Everything but the real cluster first; then that, with a cluster a process and each file's tests in one of them: most of
# their time is waiting. pytest's summary comes last, and after it a line for whatever could not run here (exit code 5:
# none of them could).
test: fresh setup forget elsewhere
	@$(BIN)/python .ci/twice $(BIN)/python -m pytest -m "not slow and not interop" -n $(JOBS) --dist loadgroup $(ARGS)
	@$(BIN)/python .ci/twice $(BIN)/python -m pytest -m "interop and not slow" -n $(JOBS) --dist loadfile $(ARGS) || [ $$? -eq 5 ]

fresh:
	@echo "fresh seeds: base=$(FRESH_BASE)"

# What failed at first in an earlier `make test`.
forget:
	@rm -f build/failed-first.txt

# Which lines of the framework the tests without the real cluster run. They take twice as long so: not part of `test`.
coverage: setup
	@$(BIN)/python -m pytest -m "not slow and not interop" -n $(JOBS) --dist loadgroup --cov --cov-report=term:skip-covered $(ARGS)

# The pure rooms and the stories on the other interpreters, where this machine has them.
elsewhere: setup forget
	@sh .ci/elsewhere 3.12 3.13 >&2

check: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

interop: setup
	@$(BIN)/python -m pytest -m interop $(ARGS)

# What the longest tests alone need: Spark Connect's client, and pandas, which Spark asks for beside Arrow.
$(VENV)/.slow: $(VENV)/.ready
	@$(BIN)/python -m pip install $(PIP_OPTIONS) -e "plugins/spark[connect]" >&2
	@touch $@

slow: setup $(VENV)/.slow
	@$(BIN)/python -m pytest -m slow $(if $(PART),-k "$(PART)") $(ARGS)

sim: setup
	@$(BIN)/python -m framework.testing.swarm $(if $(FOR),--for $(FOR) $(if $(filter-out 0,$(BASE)),--base $(BASE)),--seeds $(SEEDS) --base $(BASE)) --jobs $(JOBS)

# BASE=0 is the day. It goes on where it was stopped, as long as the sources and the base are the same.
mutate: setup
	@$(BIN)/python -m tests.mutation --mutants $(MUTANTS) --base $(BASE) --jobs $(JOBS) $(addprefix --room ,$(ROOM))

# A group of 1,000 takes some ten minutes. `ARGS="--members 30"` is a matter of seconds.
scale: setup
	@$(BIN)/python -m benchmarks.scale --members 10,30,100,300,1000 --json build/scale.json $(ARGS)

fuzz: setup
	@SECONDS="$(SECONDS)" TARGET="$(TARGET)" $(BIN)/python -m tests.fuzz.run

bench: setup
	@$(BIN)/python -m benchmarks.consume --against java --json $(OUT)

bench-quick: setup
	@$(BIN)/python -m benchmarks.consume --against none --messages 20000 --runs 1 --json $(OUT)
