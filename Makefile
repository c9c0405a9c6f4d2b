# make run    sets everything up and starts the service on the embedded store
# make test   sets everything up and runs the whole suite
# make help   lists the rest

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
DATA ?= data
MODEL ?= 1.5b
LLAMA_MODEL ?= local
# One more than there are processors, for tests also wait; more than four would be in each other's way.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); if [ $$n -lt 4 ]; then echo $$((n + 1)); else echo 4; fi)
UV := --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11

.PHONY: help setup clients run test suite demo showcase bench bench-server bench-pages bench-scale bench-1m bench-peers evals eval-llm results check format docs site pictures lock clean

help: ## what there is
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## a virtual environment with everything in it, and .venv/bin/cofio

$(VENV)/.ready: requirements.lock requirements-server.lock pyproject.toml packages/cofio-eval/pyproject.toml scripts/setup
	@sh scripts/setup $(VENV)
	@touch $@

run: setup ## the service, on 127.0.0.1:8900 and the embedded store
	@$(BIN)/cofio serve

test: setup clients ## lint, types, and the whole suite, side by side
	@$(MAKE) --no-print-directory --jobs 2 check suite

# Bytecode is written whatever the environment says: hundreds of processes are started, and each would compile us anew.
suite: setup ## the tests alone
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

clients: setup ## Claude Code and Codex, pinned, and a browser, for the tests that run the real ones
	@sh scripts/clients $(VENV)

check: setup ## lint and types alone
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

demo: setup ## the point, in ten seconds
	@$(BIN)/python examples/demo.py

showcase: setup ## a made-up team's ninety days to look at in a browser, on port 8901 and in build/showcase
	@test -e build/showcase/cofio.db || $(BIN)/python examples/showcase.py build/showcase
	@COFIO_HOME=build/showcase COFIO_PORT=8901 $(BIN)/cofio serve

bench: setup ## speed at 1k, 10k, 100k beside plain FTS5 and NumPy, of the gate, of captures, of hooks, of upkeep and of the exact lane; writes bench/results/
	@$(BIN)/python -m bench.run
	@$(BIN)/python -m bench.patterns
	@$(BIN)/python -m bench.sanitize
	@$(BIN)/python -m bench.capture
	@$(BIN)/python -m bench.hooks
	@$(BIN)/python -m bench.upkeep
	@$(BIN)/python -m bench.notes
	@$(BIN)/python -m bench.knowledge
	@$(BIN)/python -m bench.exact_lookup
	@$(BIN)/python -m bench.map

bench-server: setup ## the server store at 100k beside plain SQL and the embedded store; two services with 16 callers for a minute
	@$(BIN)/python -m bench.server
	@$(BIN)/python -m bench.concurrency

bench-pages: setup clients ## how soon the pages stand in a browser with 10,000 memories, beside a page without a store
	@$(BIN)/python -m bench.pages

bench-scale: setup ## what a query, an add and the store cost at 1k, 10k and 100k, in both stores; kept in build/scale
	@$(BIN)/python -m bench.scale --keep build/scale --write build/scale/results

bench-1m: setup ## the same, up to a million memories
	@$(BIN)/python -m bench.scale --sizes 1000 10000 100000 1000000 --keep build/scale --write build/scale/results

bench-peers: setup ## beside mem0, chromadb, mcp-memory-service and txtai, each in an environment of its own: make bench-peers DATA=folder
	@$(BIN)/python -m bench.peers $(wildcard $(DATA)/retrieval/locomo-dev.jsonl) --write build/peers/results

results: setup ## every measure in turn, hours in all, into docs/results: make results DATA=folder [RESULTS="--only hooks"]
	@$(BIN)/python scripts/results.py $(DATA) $(RESULTS)

evals: setup ## the tables that chose the defaults, on data of your own: make evals DATA=folder
	@$(BIN)/python -m evals.fusion $(DATA)/retrieval/locomo-dev.jsonl
	@$(BIN)/python -m evals.recall $(DATA)/retrieval/locomo-dev.jsonl
	@$(BIN)/python -m evals.decisions $(DATA)/pairs/sick-train.jsonl $(DATA)/pairs/beam-updates-dev.jsonl
	@$(BIN)/python -m evals.ablation
	@$(BIN)/python -m evals.oracle
	@$(BIN)/python -m evals.recorded
	@$(BIN)/python -m evals.cost

eval-llm: setup ## a small model on this machine, end to end: fetches 1.1 GB, takes 40 minutes; docs/how-to/local-model.md
	@if [ -n "$(LLAMA_SERVER)" ]; then \
		$(BIN)/python -m evals.local_model --url "$(LLAMA_SERVER)" --name "$(LLAMA_MODEL)" $(EVAL); \
	elif [ -n "$(GGUF)" ]; then \
		$(BIN)/python scripts/local_model.py --runtime-only && \
		$(BIN)/python -m evals.local_model --gguf "$(GGUF)" $(EVAL); \
	else \
		gguf=$$($(BIN)/python scripts/local_model.py --model $(MODEL)) && \
		$(BIN)/python -m evals.local_model --gguf "$$gguf" $(EVAL); \
	fi

docs: setup ## the generated pages of docs/reference
	@$(BIN)/python scripts/reference.py

site: setup ## the docs as a site of plain files, in build/site
	@$(BIN)/python scripts/site.py

pictures: setup clients ## the pictures of the docs, taken anew: the pages in a browser, a session at a terminal
	@$(BIN)/python scripts/pictures.py
	@$(BIN)/python scripts/record.py

format: setup ## what ruff can mend by itself
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

lock: setup ## new pins in requirements.lock, and those of the image and of the tests' PostgreSQL
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile pyproject.toml --extra mcp --extra postgres --group dev --output-file requirements.lock --quiet $(UV)
	@$(BIN)/uv pip compile requirements.in --no-deps --quiet $(UV) >> requirements.lock
	@$(BIN)/uv pip compile pyproject.toml --extra mcp --extra postgres --constraint requirements.lock --output-file requirements-image.lock --quiet $(UV)
	@$(BIN)/uv pip compile requirements.in --no-deps --quiet $(UV) >> requirements-image.lock
	@$(BIN)/uv pip compile --group server --output-file requirements-server.lock --quiet $(UV)

clean: ## everything that setup made
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
