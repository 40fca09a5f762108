# Two commands: `make demo` and `make test`. Each sets up what it needs, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The exact version has a CPU build; a range would fetch gigabytes of CUDA packages.
TORCH := torch==2.13.0

.PHONY: demo serve test test-services torture torture-server check docs bench clean

demo: $(VENV)/.installed
	$(BIN)/nearmt demo

# A server at http://127.0.0.1:8080 with the memory of the demo, which is built once.
serve: $(VENV)/.installed-serve
	test -e memories/demo/manifest.json || $(BIN)/nearmt build src/nearmt/demo/memory.tsv --out memories/demo
	$(BIN)/nearmt serve

test: $(VENV)/.installed-dev check
	$(BIN)/pytest -n 2

# Tests beside other programs, which it installs: nothing is skipped here. Other programs have deadlines that a loaded
# machine misses, so what failed is repeated once, with nothing beside it; what fails again is an error.
test-services: $(VENV)/.installed-services
	tools/install_browser.sh
	$(BIN)/pytest -m services -n 2 || $(BIN)/pytest -m services --last-failed --last-failed-no-failures=none

# Kills, damage, altered stores, races and readers with a fresh seed, about 40 minutes; NEARMT_SEED repeats a run.
torture: export NEARMT_SEED ?= $(shell date +%s)
torture: $(VENV)/.installed-dev
	timeout 3600 $(BIN)/pytest -m slow -n 2 -v

# Kills a server under load, about 40 minutes.
torture-server: export NEARMT_SEED ?= $(shell date +%s)
torture-server: export NEARMT_SERVER_KILLS ?= 200
torture-server: $(VENV)/.installed-dev
	$(BIN)/pytest -m services tests/serve/test_durability.py -v

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation as a site, in site/.
docs: $(VENV)/.installed-dev
	$(BIN)/python tools/command_pages.py --write
	$(BIN)/mkdocs build --strict --quiet

# Speed, building, growth and precision on this machine, into benchmarks/results: some hours, with nothing else running.
# BENCH_DATA has train.tsv(.xz) and test.tsv; BENCH_STORE is the datastore of all of train.
BENCH_DATA ?= data/koran
BENCH_STORE ?= $(BENCH_DATA)/store
BENCH_TRAIN = $(firstword $(wildcard $(BENCH_DATA)/train.tsv $(BENCH_DATA)/train.tsv.xz))
BENCH_THREADS ?= 2
BENCH_LIMIT ?= 64
BENCH_SIZES ?= 10000,100000,1000000,8000000
BENCH_RESULTS ?= benchmarks/results
bench: $(VENV)/.installed-dev
	$(BIN)/python -c 'import ctranslate2' || $(BIN)/pip install --quiet --editable ".[bench]"
	test -e $(BENCH_STORE) || $(BIN)/nearmt build $(BENCH_TRAIN) --out $(BENCH_STORE)
	$(BIN)/nearmt bench --data $(BENCH_DATA)/test.tsv --datastore $(BENCH_STORE) --limit $(BENCH_LIMIT) \
		--threads $(BENCH_THREADS) --device cpu --out $(BENCH_RESULTS)/bench-speed.json
	$(BIN)/python benchmarks/building.py --data $(BENCH_TRAIN) --threads $(BENCH_THREADS) --device cpu \
		--out $(BENCH_RESULTS)/bench-building.json
	$(BIN)/python benchmarks/growth.py --data $(BENCH_DATA)/test.tsv --datastore $(BENCH_STORE) \
		--threads $(BENCH_THREADS) --sizes $(BENCH_SIZES) --out $(BENCH_RESULTS)/bench-growth.json
	$(BIN)/python benchmarks/precision.py $(BENCH_DATA)/test.tsv --device cpu --out $(BENCH_RESULTS)/bench-precision.json

$(BIN)/pip:
	$(PYTHON) -c 'import sys; sys.exit("nearmt needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

KERNELS := $(wildcard src/nearmt/engines/cpu/*.[ch])

$(VENV)/.installed: pyproject.toml $(KERNELS) | $(BIN)/pip
	$(BIN)/pip install --quiet "$(TORCH)" --editable .
	touch $@

$(VENV)/.installed-serve: pyproject.toml $(KERNELS) | $(BIN)/pip
	$(BIN)/pip install --quiet "$(TORCH)" --editable ".[serve]"
	touch $(VENV)/.installed $@

$(VENV)/.installed-dev: pyproject.toml $(KERNELS) | $(BIN)/pip
	$(BIN)/pip install --quiet "$(TORCH)" --editable ".[dev]"
	touch $(VENV)/.installed $(VENV)/.installed-serve $@

$(VENV)/.installed-services: pyproject.toml tools/service_clients.py tools/milvus_server.py $(KERNELS) | $(BIN)/pip
	$(BIN)/pip install --quiet "$(TORCH)" --editable ".[dev,bench,browser,ray,milvus]"
	$(BIN)/python tools/service_clients.py
	$(BIN)/python tools/milvus_server.py install
	touch $(VENV)/.installed $(VENV)/.installed-serve $(VENV)/.installed-dev $@

clean:
	rm -rf $(VENV) .services site .mypy_cache .pytest_cache .ruff_cache .hypothesis
