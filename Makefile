# All targets are non-interactive. Results go to stdout, logs to stderr.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
# A `make` below this one takes the same: by another path pyenv's is another interpreter, and all would be installed anew.
export PYTHON
VENV := .venv
DEMO := .venv-demo
DOCS := .venv-docs
BIN := $(VENV)/bin
PIP_OPTIONS := --quiet --disable-pip-version-check --no-input
# Whatever a plugin's or a package's build needs is pinned, too.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt

SEEDS ?= 300
BASE ?= 0
# Where the 16 seeds of the simulation begin that every `make test` plays. Fresh ones are drawn by `make fresh`.
GATE_BASE := 34000000
JOBS ?= 2
export JOBS
# Where it is set, each of the hundreds of processes that tests start would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE
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

.PHONY: setup demo test fresh coverage check docs interop screenshots slow sim mutate scale fuzz bench bench-quick bench-peers bench-suite bench-report elsewhere helm-check alerts-check FORCE

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
	@sh .ci/progress "demo: making $(DEMO), once" sh .ci/environment "$(PYTHON)" $(DEMO) >&2
	@sh .ci/progress "demo: installing framework-app into $(DEMO), once; under a minute" \
		$(DEMO)/bin/python -m pip install $(PIP_OPTIONS) -e . >&2
	@touch $@

$(DEMO)/.spark: $(DEMO)/.ready plugins/spark/pyproject.toml
	@$(DEMO)/bin/python -m pip install $(PIP_OPTIONS) -e plugins/spark >&2
	@touch $@

# With SPARK=1 (and Java) revenue is counted, too. What an earlier demo's broker held is gone, and so is its checkpoint.
demo: $(DEMO)/.ready $(if $(SPARK),$(DEMO)/.spark)
	@$(if $(SPARK),rm -rf build/demo-revenue)
	@exec $(DEMO)/bin/framework-app dev example_app $(if $(SPARK),--overlay example_app/with-revenue.yaml)

# The wheel as users install it, and the pure rooms on the other interpreters, which CI must have; everything but the real
# cluster; then that. Each runs whatever the others came to. Two runs of one commit do the same; last it says what failed.
GATE := "$(PYTHON)" .ci/gate
test: setup
	@$(GATE) wheel 3.12 3.13 tests cluster -- $(ARGS)

# What is drawn anew each time, by BASE (0: the clock): seeds, orders, examples, inputs; from FOR=20m on mistakes, too.
fresh: setup
	@$(BIN)/python -m tests.fresh --for $(or $(FOR),2m) --base $(BASE) --jobs $(JOBS)

# Which lines of the framework the tests without the real cluster run. They take twice as long so: not part of `test`.
coverage: setup
	@$(BIN)/python -m pytest -m "not slow and not interop" -n $(JOBS) --dist loadgroup --cov --cov-report=term:skip-covered $(ARGS)

elsewhere: setup
	@$(GATE) 3.12 3.13

# Format, lint, types, who imports whom, and the docs' links.
check: setup
	@$(GATE) check

$(DOCS)/.ready: constraints.txt docs/requirements.txt build/python
	@sh .ci/environment "$(PYTHON)" $(DOCS) >&2
	@$(DOCS)/bin/python -m pip install $(PIP_OPTIONS) -r docs/requirements.txt >&2
	@touch $@

# The site, to be read from the disk. Every warning is an error, and so is a link to a page, a file or a heading that is not
# there. Each run reads all pages: what did not change may point to what did.
docs: $(DOCS)/.ready
	@$(DOCS)/bin/python -m sphinx -q -E -W --keep-going -c docs -d build/docs-state . build/docs
	@echo "docs: build/docs/index.html"

interop: setup
	@$(BIN)/python -m pytest -m interop $(ARGS)

# Each view of the dashboard at two widths, light and dark, into build/screenshots.
screenshots: setup
	@$(BIN)/python -m tests.cli.dashboard.screenshots build/screenshots
	@echo "screenshots: build/screenshots"

# What the longest tests alone need: Spark Connect's client, and pandas, which Spark asks for beside Arrow.
$(VENV)/.slow: $(VENV)/.ready
	@$(BIN)/python -m pip install $(PIP_OPTIONS) -e "plugins/spark[connect]" >&2
	@touch $@

slow: setup $(VENV)/.slow
	@$(BIN)/python -m pytest -m slow $(if $(PART),-k "$(PART)") $(ARGS)

sim: setup
	@$(BIN)/python -m tests.simulation $(if $(FOR),--for $(FOR) $(if $(filter-out 0,$(BASE)),--base $(BASE)),--seeds $(SEEDS) --base $(BASE)) --jobs $(JOBS)

# BASE=0 is the day. It goes on where it was stopped, as long as the sources and the base are the same.
mutate: setup
	@$(BIN)/python -m tests.mutation --mutants $(MUTANTS) --base $(BASE) --jobs $(JOBS) $(addprefix --room ,$(ROOM))

# A group of 1,000 takes some ten minutes. `ARGS="--members 30"` is a matter of seconds.
scale: setup
	@$(BIN)/python -m benchmarks.scale --members 10,30,100,300,1000 --json build/scale.json $(ARGS)

# Whether the renderings that tests read are what helm makes of the chart; WRITE=1 makes them anew. Go builds helm once, which
# takes some minutes; HELM=helm takes the one that is there.
HELM ?= build/helm/helm
WRITE ?=
build/helm/helm:
	@GOBIN="$(CURDIR)/build/helm" sh .ci/progress "helm-check: building helm, once; some minutes" \
		go install helm.sh/helm/v3/cmd/helm@v3.16.4 >&2

helm-check: setup $(filter build/%,$(HELM))
	@$(BIN)/python -m tests.deploy.charts "$(HELM)" $(if $(WRITE),--write)

# Whether promtool reads the alerts and the queries of the dashboard, and which alerts each fault of tests/deploy/faults.py has.
# Go builds it once, which takes some minutes; PROMTOOL=promtool takes the one that is there.
PROMTOOL ?= build/promtool/promtool
build/promtool/promtool:
	@GOBIN="$(CURDIR)/build/promtool" sh .ci/progress "alerts-check: building promtool, once; some minutes" \
		go install github.com/prometheus/prometheus/cmd/promtool@v0.316.0 >&2

alerts-check: setup $(filter build/%,$(PROMTOOL))
	@$(BIN)/python -m tests.deploy.alerts "$(PROMTOOL)"

fuzz: setup
	@SECONDS="$(SECONDS)" TARGET="$(TARGET)" $(BIN)/python -m tests.fuzz.run

bench: setup
	@$(BIN)/python -m benchmarks.consume --against java --json $(OUT)

bench-quick: setup
	@$(BIN)/python -m benchmarks.consume --against none --messages 20000 --runs 1 --json $(OUT)

# What `benchmarks.peers` compares with, in an environment of its own. Redis comes with one of its packages.
PEERS := .venv-peers
$(PEERS)/.ready: benchmarks/peers/requirements.txt build/python
	@sh .ci/environment "$(PYTHON)" $(PEERS) >&2
	@env -u PIP_CONSTRAINT $(PEERS)/bin/python -m pip install $(PIP_OPTIONS) -r benchmarks/peers/requirements.txt >&2
	@touch $@

bench-peers: setup $(PEERS)/.ready
	@$(BIN)/python -m benchmarks.peers --json build/peers.json $(ARGS)

# Everything that docs/performance.md shows, some hours: leave the machine alone meanwhile. ARGS="--only latency" measures some.
bench-suite: setup $(PEERS)/.ready
	@$(BIN)/python -m benchmarks.suite $(ARGS)

# The page and its plots, from what was measured last.
bench-report: setup
	@$(BIN)/python -m benchmarks.performance
