# Two commands do everything on a machine with Python 3.11 or newer: `make demo` and `make test`.

# The oldest that we support comes first: what passes there is what the types and the lock were made for.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3; do \
	"$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo "$$python" && break; done)
VENV := .venv
BIN := $(VENV)/bin
# Written when all that the lock names is installed, so that the second run is quick.
STAMP := $(VENV)/.installed
# MCP servers and clients that others wrote, to test against.
SERVERS := build/servers
# Programs that do what `tooldispatchd mcp` does, to be measured beside it.
BRIDGES := build/bench
# What some tests shut programs in with, beside Landlock.
BUBBLEWRAP := build/bubblewrap
# Where a user's own programs are, and where systemd, man and the shells look for what belongs to them.
USER_PREFIX := $(HOME)/.local
# What reads the daemon's metrics, and checks the rules for it.
PROMETHEUS := build/prometheus
NPM := $(if $(shell command -v node 2>/dev/null),$(shell command -v npm 2>/dev/null))
# flake8-async takes files only, a third of a second for each: it gets those in which tasks wait, or have a scope, on all
# cores; in `make check` those of the last day. Each family of rules that is named costs: of asyncio (ASYNC3) ruff says the
# same, and the optional ones (ASYNC9) contradict trio's synchronous methods; naming only rules to leave out would bring
# those in. A test may be async for the loop that it runs in (ASYNC124), may look again and again at a process that sends no
# event (ASYNC110), and may block: nobody else waits for its loop (ASYNC22).
WITH_TASKS = xargs --no-run-if-empty grep --files-with-matches --word-regexp --extended-regexp 'async|await|CancelScope'
FLAKE8_ASYNC = xargs --no-run-if-empty --max-procs=$$(nproc) --max-args=20 $(BIN)/flake8-async --startable-in-context-manager=_hold
CHANGED = git log --since='1 day ago' --diff-filter=d --name-only --format= -- '*.py' | sort --unique | xargs --no-run-if-empty ls 2>/dev/null
# More files at a time than there are cores, since most wait for a process that they started; the tests of one file stay
# together, since some share what they set up, and keep the order that tests/conftest.py gives them.
PYTEST = PATH="$$PATH:$(CURDIR)/$(BUBBLEWRAP)/usr/bin:$(CURDIR)/$(PROMETHEUS)/usr/bin" $(BIN)/python -m pytest --dist=loadfile --no-loadscope-reorder --quiet \
	--numprocesses=$$(($$(nproc) + 2))

# Where it is set, each of a thousand processes would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install install-user demo test soak servers check check-types check-async check-layers check-style bench bridges attack fuzz documents protocol lock clean

help: ## say what each command does
	@sed -n 's/^\([a-z-]*\):.*## /make \1 - /p' Makefile

install: $(STAMP)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "cannot install: no Python 3.11 or newer, with venv, is on the PATH" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The project's own build tools are in the lock, so that nothing is fetched unpinned. Python compiles what is imported when it
# is; most modules never are, and to compile all of them takes a quarter of the time.
$(STAMP): requirements.lock pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(STAMP)

# What the lock says, for this user alone, with what belongs to it: the wheel brings the completions, man pages and units. Where
# it has been before, it is renewed.
install-user: | $(BIN)/python ## install the program, its completions, man pages and units for this user, below ~/.local
	mkdir -p build $(USER_PREFIX)/bin $(USER_PREFIX)/share
	sed -E -e '/^ +--hash=/d' -e 's/ \\$$//' requirements.lock > build/constraints.txt
	$(PYTHON) -m venv --clear $(USER_PREFIX)/lib/tooldispatchd
	$(USER_PREFIX)/lib/tooldispatchd/bin/python -m pip install --quiet --disable-pip-version-check --constraint build/constraints.txt '.$(if $(EXTRAS),[$(EXTRAS)])'
	ln -sf ../lib/tooldispatchd/bin/tooldispatchd $(USER_PREFIX)/bin/tooldispatchd
	cd $(USER_PREFIX)/lib/tooldispatchd/share && cp -r bash-completion zsh fish systemd $(USER_PREFIX)/share
	mkdir -p $(USER_PREFIX)/share/man/man1 && cp $(USER_PREFIX)/lib/tooldispatchd/share/man/man1/tooldispatchd* $(USER_PREFIX)/share/man/man1
	@echo 'installed; docs/operating.md says how a daemon is started with the first agent of this user'

demo: install ## show an agent calling inline, process and MCP tools through a daemon
	$(BIN)/tooldispatchd demo

# The tests come last: their closing line is what a reader looks for.
test: ## everything that must pass: the checks, then the tests; 6 minutes once installed
	$(MAKE) --no-print-directory --jobs=3 --output-sync check $(BUBBLEWRAP)/.tried
	$(PYTEST) -m "not soak"

# SOAK has tests try more: each property four times the examples, each client and server of others, each transcript. What is
# measured by the clock comes after them, one by one.
soak: install servers $(BUBBLEWRAP)/.tried $(PROMETHEUS)/.tried ## what attacks, waits, and meets programs of others: an hour before a release
	find tooldispatchd docs protocol benchmarks -name '*.py' | $(WITH_TASKS) | $(FLAKE8_ASYNC) --enable=ASYNC1,ASYNC2,ASYNC4
	find tests -name '*.py' | $(WITH_TASKS) | $(FLAKE8_ASYNC) --disable=ASYNC9,ASYNC110,ASYNC124,ASYNC22
	SOAK=all $(PYTEST)
	$(BIN)/python -m tests.conformance
	$(BIN)/python -m tests.churn --seconds 200
	$(MAKE) --no-print-directory attack fuzz FUZZ_S=$(or $(FUZZ_S),120)

# Those of npm where node is there; without it their tests are skipped, and say so. Each set has a directory of its own,
# for two makes of the SDK cannot share one, and nothing that the project locks may depend on them.
servers: $(foreach set,sdk1 sdk2 fastmcp describing postgres $(if $(NPM),npm clients openapi),$(SERVERS)/$(set)/.installed)

# Unpacked, not installed, which takes no rights; where that cannot be, the tests that need it are skipped, and say so.
$(BUBBLEWRAP)/.tried:
	mkdir -p $(@D)
	command -v bwrap >/dev/null || (cd $(@D) && apt-get download --quiet bubblewrap && dpkg -x bubblewrap_*.deb .) \
		|| echo "there is no bubblewrap: its tests are skipped" >&2
	touch $@

$(PROMETHEUS)/.tried:
	mkdir -p $(@D)
	command -v prometheus >/dev/null || (cd $(@D) && apt-get download --quiet prometheus && dpkg -x prometheus_*.deb .) \
		|| echo "there is no prometheus: its tests are skipped" >&2
	touch $@

# The lock is complete, and pip would look for an extra that it names as if for another package. A pip of its own would
# cost each as much as a third of what it installs.
$(SERVERS)/%/.installed: tests/servers/pypi/%.lock | $(BIN)/python
	$(PYTHON) -m venv --clear --without-pip $(@D)
	$(BIN)/python -m pip --python $(@D)/bin/python install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r $<
	touch $@

# Clients, and the conformance suite, of npm, which bring a Node that is new enough for them; and documents of OpenAPI.
NPM_SETS := $(foreach set,npm clients openapi,$(SERVERS)/$(set)/.installed)
$(NPM_SETS): $(SERVERS)/%/.installed: tests/servers/%/package.json tests/servers/%/package-lock.json tests/servers/%/.npmrc
$(BRIDGES)/npm/.installed: $(patsubst %,benchmarks/bridges/%,package.json package-lock.json .npmrc)
$(NPM_SETS) $(BRIDGES)/npm/.installed:
	mkdir -p $(@D)
	cp $^ $(@D)
	cd $(@D) && $(NPM) ci --silent
	touch $@

# What takes longest comes first, for `make test` runs them side by side.
check: check-types check-async check-layers check-style ## lint, format, types and layers

check-types: install
	$(BIN)/mypy

check-async: install
	$(CHANGED) | grep --invert-match ^tests/ | $(WITH_TASKS) | $(FLAKE8_ASYNC) --enable=ASYNC1,ASYNC2,ASYNC4 --disable=ASYNC100,ASYNC124

check-layers: install
	$(BIN)/lint-imports

check-style: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: install ## measure, and write benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks.run

# Those that cannot be had are left out of the table, which says so.
bridges: ## install what `benchmarks.mcp_face` measures beside the daemon's own bridge
	-@$(MAKE) --no-print-directory --keep-going $(BRIDGES)/pypi/.installed $(if $(NPM),$(BRIDGES)/npm/.installed)

$(BRIDGES)/pypi/.installed: benchmarks/bridges/mcp-proxy.lock
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	touch $@

# One after the other and alone: their figures are those of a machine that does nothing else.
attack: install ## have hostile agents, programs and servers at a daemon, minutes of it (ATTACK_S=seconds for each)
	ATTACK_S=$(or $(ATTACK_S),8) $(BIN)/python -m pytest -p no:xdist --capture=no --quiet tests/attack \
		tests/daemon/test_few_descriptors.py tests/daemon/test_hostile_programs.py tests/rest/test_hostile.py

# What is found is written under build/fuzz, with the command that plays it again.
fuzz: install ## look for lines that break a session, for ten minutes (FUZZ_S=seconds), and for schedules that break its steps
	$(BIN)/python -m tests.fuzz --seconds $(or $(FUZZ_S),600)
	PIPELINE_EXAMPLES=$(or $(PIPELINE_EXAMPLES),5000) $(BIN)/python -m pytest -p no:xdist -q tests/agent/steps/test_pipeline_schedules.py

# Every operation of a dozen documents, and every document of the directory as it is loaded.
documents: install servers ## call each operation of real documents of OpenAPI, for half an hour
	$(BIN)/python -m tests.documents

protocol: install ## write what follows from the registry of protocol/, the Structs and the commands: schemas, tables, man pages
	$(BIN)/python -m docs.generate
	$(BIN)/python -m docs.render
	$(BIN)/python -m docs.settings
	$(BIN)/python -m docs.metrics
	$(BIN)/python -m docs.manual

# One lock for every supported Python: the markers say what each of them needs. The compiler lives in a directory of
# its own, since nothing that is locked may depend on it.
lock: ## choose the versions anew and write requirements.lock, and the locks of the servers to test against
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(PYTHON) -c "$$LOCK_INPUT" > build/lock/requirements.in
	$(LOCK) build/lock/requirements.in --output-file requirements.lock
	$(LOCK) tests/servers/pypi/sdk1.in --output-file tests/servers/pypi/sdk1.lock
	$(LOCK) tests/servers/pypi/sdk2.in --output-file tests/servers/pypi/sdk2.lock
	$(LOCK) tests/servers/pypi/fastmcp.in --output-file tests/servers/pypi/fastmcp.lock
	$(LOCK) tests/servers/pypi/describing.in --output-file tests/servers/pypi/describing.lock
	$(LOCK) benchmarks/bridges/mcp-proxy.in --output-file benchmarks/bridges/mcp-proxy.lock
	$(if $(NPM),cd tests/servers/npm && $(NPM) update --package-lock-only --silent)
	$(if $(NPM),cd tests/servers/clients && $(NPM) update --package-lock-only --silent)
	$(if $(NPM),cd tests/servers/openapi && $(NPM) update --package-lock-only --silent)
	$(if $(NPM),cd benchmarks/bridges && $(NPM) update --package-lock-only --silent)

LOCK := build/lock/bin/uv pip compile --upgrade --quiet --universal --python-version 3.11 --generate-hashes \
	--strip-extras --no-header --no-annotate --no-emit-index-url --no-emit-find-links

define LOCK_INPUT
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
names = project["project"]["dependencies"] + project["build-system"]["requires"] + ["editables"]
for group in [*project["project"]["optional-dependencies"].values(), *project["dependency-groups"].values()]:
    names += group
print(*dict.fromkeys(names), sep="\n")
endef
export LOCK_INPUT

clean: ## remove everything that make has made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
