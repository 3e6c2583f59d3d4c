# `make chat` and `make test` are all that a newcomer needs; both make the environment first.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY  := $(VENV)/.ready

# Compiled modules lie with the environment, so that they also exist where the caller wants none in the tree:
# otherwise each of the workers compiles all tests again, which takes it about 7 s.
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache
unexport PYTHONDONTWRITEBYTECODE

.PHONY: chat extra test histories more check static format lint types scripts imports docs docs-check texts pictures bench bench-actors bench-questions bench-stop \
        bench-turn bench-pieces bench-idle bench-start bench-skills bench-status bench-command bench-folder bench-reading \
        bench-stop-telegram bench-stop-research bench-stop-cluster bench-tasks bench-schedules bench-cost bench-crowd bench-page bench-agent bench-recall bench-million bench-cluster chaos chaos-cluster soak lock lock-check clean release site simulate seeds synapse

# With files of its own: a newcomer's first notes do not belong into the clone.
chat: $(INSTALLED)
	@$(BIN)/rumi chat --own

# A part of Rumi that most people do not need: make extra NAME=office. docs/dependencies.md lists them.
extra:
	@$(MAKE_ENVIRONMENT) $(or $(NAME),$(error Name an extra, for example: make extra NAME=office))

# Each module's tests stay on one worker, so that they share its servers. WORKERS=0 runs all in one process.
WORKERS  ?= $(shell echo $$(($$(nproc) * 2)))
# Long tests wait more than they compute.
LONG_WORKERS ?= $(shell echo $$(($$(nproc) * 3)))
LONG     := long and not alone and not more
MODULES  := --dist loadscope --no-loadscope-reorder
PARALLEL := --numprocesses $(WORKERS) $(MODULES)

# A test that fails beside others is run once more by itself: some talk to real processes in real time, and
# four of them share two processors. It counts if it fails again; what passes only then is still printed above.
test: $(READY)
	$(BIN)/pytest $(PARALLEL) -m "not long" \
	    || $(BIN)/pytest -m "not long" --last-failed --last-failed-no-failures none

# New histories of the whole house, for SIMULATE_S seconds (600), by SIMULATE_PROCESSES processes (all cores).
simulate: $(READY)
	$(BIN)/python -m tests.simulation.many

# Searches for histories that show the planted faults, where a change of the program has shifted them, for
# SEARCH_S seconds of the processor each (120). It stores their seeds in tests/simulation/seeds.json.
seeds: $(READY)
	SEARCH_S=$(or $(SEARCH_S),120) $(BIN)/pytest --numprocesses $$(nproc) tests/simulation/test_planted_faults.py \
	    tests/simulation/cluster/test_planted_cluster_faults.py

# What `make test` leaves out: the planted faults, what takes longer than about three seconds, what needs the
# processors for itself, and 200 histories of one process and of several workers, always the same ones, of
# which `make test` plays the first 25 each.
histories: $(READY)
	$(BIN)/pytest --numprocesses $(LONG_WORKERS) $(MODULES) -m "$(LONG)" \
	    || $(BIN)/pytest -m "$(LONG)" --last-failed --last-failed-no-failures none
	$(BIN)/pytest -m alone tests/sandbox || $(BIN)/pytest -m alone --last-failed --last-failed-no-failures none
	SIMULATIONS=200 $(BIN)/pytest --numprocesses 2 tests/simulation/test_histories.py \
	    tests/simulation/cluster/test_cluster_histories.py -k whatever_happens

# Further seeds and faults of tests of which `make check` runs a few.
more: $(READY)
	$(BIN)/pytest --numprocesses $(LONG_WORKERS) $(MODULES) -m more

# The one command before a commit: format, lint, types, the page's scripts, imports, documents, the long simulation, tests.
check: static histories test

# What needs no test to run, as many at once as there are processors.
static: $(READY)
	$(MAKE) --no-print-directory --jobs=$(shell nproc) --output-sync=target format lint types scripts imports docs-check

format: $(READY)
	$(BIN)/ruff format --check .

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

# The types of the page's scripts. TypeScript only checks; nothing of it is shipped.
scripts:
	@command -v tsc >/dev/null || { echo "✗ tsc is missing. Install TypeScript (Debian, Ubuntu: sudo apt install node-typescript)." >&2; exit 1; }
	tsc --project tests/channels/page/scripts

imports: $(READY)
	$(BIN)/lint-imports --no-cache

# What in the documents and in deploy/ comes from the code.
docs: $(READY)
	$(BIN)/python -m docs.making.commands
	$(BIN)/python -m docs.making.calls
	$(BIN)/python -m docs.making.schemas
	$(BIN)/python -m docs.making.scripts
	$(BIN)/python -m docs.making.profile
	$(BIN)/python -m docs.making.dialects

# The catalogues of translations: their keys from the code, and their compiled form; numbers and dates by CLDR.
texts: $(READY)
	$(BIN)/python -m docs.making.texts
	$(BIN)/python -m docs.making.formats

docs-check: $(READY)
	$(BIN)/python -m docs.making.checking

# Screens and recordings of the real program, for the README and docs/screens.md.
pictures: $(READY)
	$(BIN)/python -m docs.making.pictures

bench: bench-actors bench-stop bench-stop-telegram bench-stop-research bench-stop-cluster bench-tasks bench-schedules bench-status bench-turn bench-pieces bench-idle bench-start bench-skills bench-command bench-folder bench-reading bench-cost bench-crowd bench-page bench-agent bench-recall bench-questions

# triotp asks for an old trio; it runs on ours, so it comes without what it asks for.
bench-actors: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r bench/requirements.lock
	$(BIN)/python -m bench.actors

# How well earlier conversations are found, beside plain BM25, and how fast among 100,000 exchanges.
bench-recall: $(READY)
	$(BIN)/python -m bench.recall

# How many honest tasks of servers' tools ask, by what spares questions; and that no injected call runs.
bench-questions: $(READY)
	$(BIN)/python -m bench.questions

bench-stop: $(READY)
	$(BIN)/python -m bench.stop

bench-stop-telegram: $(READY)
	$(BIN)/python -m bench.stop_telegram

# /stop of a turn that waits for researchers, with pages and clones under way.
bench-stop-research: $(READY)
	$(BIN)/python -m bench.stop_research

# PostgreSQL's server must be installed.
# A store with a million chats on PostgreSQL, beside one with a thousand: about ten minutes, 3 GB of disk.
bench-million: $(READY)
	$(BIN)/python -m bench.million

bench-stop-cluster: $(READY)
	$(BIN)/python -m bench.stop_cluster 200

# 50 tasks at once beside 50 chats: memory of a task, delay of the event loop.
bench-tasks: $(READY)
	$(BIN)/python -m bench.tasks

# 10,000 schedules: what they cost while nothing fires, and how late fires are beside 200 chats in turns.
bench-schedules: $(READY)
	$(BIN)/python -m bench.schedules

# The CPU of a turn: in this process, and over Telegram, where a start and idle memory are measured too.
bench-turn: $(READY)
	$(BIN)/python -m bench.turn
	$(BIN)/python -m bench.telegram_turn

# The latency of a plain message and of pieces, with and without `[chat] together_s`, in one run.
bench-pieces: $(READY)
	$(BIN)/python -m bench.pieces

bench-idle: $(READY)
	$(BIN)/python -m bench.idle

bench-start: $(READY)
	$(BIN)/python -m bench.start

# A chat in a project of 5,000 files, compared with a chat of its own.
bench-folder: $(READY)
	$(BIN)/python -m bench.folder

bench-status: $(READY)
	$(BIN)/python -m bench.status

# kill -9 at random moments, while people write; CHAOS_KILLS=20 for a quick look, CHAOS_SEED=7 for another one.
chaos: $(READY)
	$(BIN)/python -m bench.chaos

# Faults of three workers on one PostgreSQL database, by a seed: kills, pauses, cut connections, a server that
# crashes, a full disk (as root). It needs PostgreSQL's server. CHAOS_FAULTS=20 CHAOS_CHATS=60 for a quick look.
chaos-cluster: $(READY)
	$(BIN)/python -m bench.chaos_cluster

# One to three workers beside one process with SQLite: replies a second, what a message costs, /stop, takeover.
bench-cluster: $(READY)
	$(BIN)/python -m bench.cluster

bench-skills: $(READY)
	$(BIN)/python -m bench.skills

# Memory after 1,000 turns is what it was after 100.
soak: $(READY)
	$(BIN)/python -m bench.soak

bench-command: $(READY)
	$(BIN)/python -m bench.docker_command
	$(BIN)/python -m bench.bubblewrap_command

# What is kept of saved pages, beside well-known extractors.
bench-reading: $(READY)
	$(BIN)/python -m bench.reading

# Model calls and prompt tokens of conversations, and how much of each prompt repeats the one before.
bench-cost: $(READY)
	$(BIN)/python -m bench.cost

# Up to 1,000 turns at once: how long they take, /stop meanwhile, and a server that refuses what is too much.
bench-crowd: $(READY)
	$(BIN)/python -m bench.crowd

# The page in Chromium: bytes of what streams, times to the screen, memory, the first load, a server that hangs.
bench-page: $(READY)
	$(BIN)/python -m bench.page

# The agent without a language model: 60 tasks with a scripted model, planted faults, models that misbehave,
# command lines.
bench-agent: $(READY)
	$(BIN)/python -m bench.agent --faults

# The documentation as a site in site/, with MkDocs in an environment of its own. It works from the folder, without
# a server or a network.
SITE := $(VENV)/site

site: $(SITE)/.ready
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --quiet
	@echo "Open site/index.html."

$(SITE)/.ready: docs/requirements.lock | $(READY)
	@$(PYTHON) -m venv --clear $(SITE)
	@$(SITE)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r docs/requirements.lock
	@touch $@

# A release's files in dist/, which depend only on the commit: CONTRIBUTING.md says what comes before and after.
release: $(READY)
	$(BIN)/python deploy/release.py

# For maintainers, with uv on the path: versions and hashes for Linux and all Pythons, no addresses.
lock:
	python3 deploy/lock.py
	uv pip compile --group docs --universal --generate-hashes --python-version 3.11 \
	    --no-emit-index-url --no-emit-find-links --strip-extras --no-annotate --no-header --quiet -o docs/requirements.lock
	printf '%s\n' matplotlib pillow reportlab python-pptx python-docx openpyxl | uv pip compile - --universal \
	    --generate-hashes --python-version 3.11 --no-emit-index-url --no-emit-find-links --strip-extras \
	    --no-annotate --no-header --quiet -o runner/office.lock
	echo matrix-synapse | uv pip compile - --generate-hashes --python-version 3.11 --no-emit-index-url \
	    --no-emit-find-links --strip-extras --no-annotate --no-header --quiet -o tests/synapse.lock

# A homeserver for the tests of Matrix, in an environment of its own: its packages must not limit Rumi's.
synapse: $(VENV)/synapse/.ready

$(VENV)/synapse/.ready: tests/synapse.lock $(READY)
	$(PYTHON) -m venv --clear $(VENV)/synapse
	$(VENV)/synapse/bin/python -m pip install --disable-pip-version-check --no-input --quiet --no-deps --require-hashes -r tests/synapse.lock
	@touch $@

# Whether each locked package has a file for each Python and processor.
lock-check:
	python3 deploy/lock.py check

define MAKE_ENVIRONMENT
command -v $(PYTHON) >/dev/null || { echo "✗ $(PYTHON) is missing. Install Python 3.11 or later (Debian, Ubuntu: sudo apt install python3 python3-venv)." >&2; exit 1; }; \
PYTHONPYCACHEPREFIX= PYTHONDONTWRITEBYTECODE=1 $(PYTHON) deploy/environment.py $(VENV)
endef

# What `rumi` needs, and the extras that were chosen.
$(INSTALLED): requirements.lock pyproject.toml
	@$(MAKE_ENVIRONMENT)

# Everything: all extras, and what tests and development need.
$(READY): requirements.lock pyproject.toml
	@$(MAKE_ENVIRONMENT) everything

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist site *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
