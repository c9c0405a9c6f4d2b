# make run    install everything and start the service on the embedded store
# make test   install everything and run all checks and tests
# make help   list all targets

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
DATA ?= data
MODEL ?= 1.5b
LLAMA_MODEL ?= local
# One worker more than processors, since tests also wait; at most four.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); if [ $$n -lt 4 ]; then echo $$((n + 1)); else echo 4; fi)
NPM := npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund --loglevel=error
UV := --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11

.PHONY: help setup clients run test suite demo showcase bench bench-server bench-pages bench-scale bench-1m bench-peers evals eval-llm results check format docs site pictures lock clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## create the virtual environment with all dependencies and .venv/bin/cofio

$(VENV)/.ready: requirements.lock requirements-server.lock pyproject.toml packages/cofio-eval/pyproject.toml scripts/setup
	@sh scripts/setup $(VENV)
	@touch $@

run: setup ## start the service on 127.0.0.1:8900 with the embedded store
	@$(BIN)/cofio serve

test: setup clients ## run linter, type checker and test suite in parallel
	@$(MAKE) --no-print-directory --jobs 2 check suite

# Bytecode is always written: the tests start hundreds of processes, which would otherwise compile the package each time.
suite: setup ## run the tests only
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

clients: setup ## install pinned Claude Code, Codex and a browser for the end-to-end tests
	@sh scripts/clients $(VENV)

check: setup ## run linter and type checker only
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

demo: setup ## run the ten-second demo
	@$(BIN)/python examples/demo.py

showcase: setup ## serve 90 days of sample data of a team on port 8901; stored in build/showcase
	@test -e build/showcase/cofio.db || $(BIN)/python examples/showcase.py build/showcase
	@COFIO_HOME=build/showcase COFIO_PORT=8901 $(BIN)/cofio serve

bench: setup ## measure speed at 1k, 10k and 100k memories against FTS5 and NumPy; gate, capture, hooks, maintenance; writes bench/results/
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

bench-server: setup ## measure PostgreSQL at 100k memories against plain SQL and the embedded store; run 16 concurrent callers for a minute
	@$(BIN)/python -m bench.server
	@$(BIN)/python -m bench.concurrency

bench-pages: setup clients ## measure page load times in a browser with 10,000 memories
	@$(BIN)/python -m bench.pages

bench-scale: setup ## measure query, add and storage cost at 1k, 10k and 100k memories in both stores; reuse results in build/scale
	@$(BIN)/python -m bench.scale --keep build/scale --write build/scale/results

bench-1m: setup ## run bench-scale up to a million memories
	@$(BIN)/python -m bench.scale --sizes 1000 10000 100000 1000000 --keep build/scale --write build/scale/results

bench-peers: setup ## compare with mem0, chromadb, mcp-memory-service and txtai, each in its own environment: make bench-peers DATA=folder
	@$(BIN)/python -m bench.peers $(wildcard $(DATA)/retrieval/locomo-dev.jsonl) --write build/peers/results

results: setup ## run all measurements and write docs/results, which takes hours: make results DATA=folder [RESULTS="--only hooks"]
	@$(BIN)/python scripts/results.py $(DATA) $(RESULTS)

evals: setup ## print the tables behind the default settings for your own data: make evals DATA=folder
	@$(BIN)/python -m evals.fusion $(DATA)/retrieval/locomo-dev.jsonl
	@$(BIN)/python -m evals.recall $(DATA)/retrieval/locomo-dev.jsonl
	@$(BIN)/python -m evals.decisions $(DATA)/pairs/sick-train.jsonl $(DATA)/pairs/beam-updates-dev.jsonl
	@$(BIN)/python -m evals.ablation
	@$(BIN)/python -m evals.oracle
	@$(BIN)/python -m evals.recorded
	@$(BIN)/python -m evals.cost

eval-llm: setup ## evaluate a small local model: downloads 1.1 GB, takes 40 minutes; docs/how-to/local-model.md
	@if [ -n "$(LLAMA_SERVER)" ]; then \
		$(BIN)/python -m evals.local_model --url "$(LLAMA_SERVER)" --name "$(LLAMA_MODEL)" $(EVAL); \
	elif [ -n "$(GGUF)" ]; then \
		$(BIN)/python scripts/local_model.py --runtime-only && \
		$(BIN)/python -m evals.local_model --gguf "$(GGUF)" $(EVAL); \
	else \
		gguf=$$($(BIN)/python scripts/local_model.py --model $(MODEL)) && \
		$(BIN)/python -m evals.local_model --gguf "$$gguf" $(EVAL); \
	fi

docs: setup ## generate the pages of docs/reference
	@$(BIN)/python scripts/reference.py

site: setup ## build the docs as a static site in build/site
	@$(BIN)/python scripts/site.py

pictures: setup clients ## regenerate the pictures of the docs: browser screenshots and a terminal session
	@$(BIN)/python scripts/pictures.py
	@$(BIN)/python scripts/record.py

format: setup ## fix and format the code with ruff
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

lock: setup ## update the pins of Python and npm packages
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile pyproject.toml --extra mcp --extra postgres --group dev --output-file requirements.lock --quiet $(UV)
	@$(BIN)/uv pip compile requirements.in --no-deps --quiet $(UV) >> requirements.lock
	@$(BIN)/uv pip compile pyproject.toml --extra mcp --extra postgres --constraint requirements.lock --output-file requirements-image.lock --quiet $(UV)
	@$(BIN)/uv pip compile requirements.in --no-deps --quiet $(UV) >> requirements-image.lock
	@$(BIN)/uv pip compile --group build --constraint requirements.lock --output-file requirements-build.lock --quiet $(UV)
	@for folder in tests/acceptance tests/openclaw/npm/*; do (cd $$folder && $(NPM)); done
	@$(BIN)/uv pip compile --group server --output-file requirements-server.lock --quiet $(UV)

clean: ## delete the virtual environment and the tool caches
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
