# Two commands: `make demo` and `make test`. Each sets up what it needs, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The exact version has a CPU build; a range would fetch gigabytes of CUDA packages.
TORCH := torch==2.13.0

.PHONY: demo test check docs clean

demo: $(VENV)/.installed
	$(BIN)/nearmt demo

test: $(VENV)/.installed-dev check
	$(BIN)/pytest -n 2

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation as a site, in site/.
docs: $(VENV)/.installed-dev
	$(BIN)/python tools/command_pages.py --write
	$(BIN)/mkdocs build --strict --quiet

$(BIN)/pip:
	$(PYTHON) -c 'import sys; sys.exit("nearmt needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/pip
	$(BIN)/pip install --quiet "$(TORCH)" --editable .
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/pip
	$(BIN)/pip install --quiet "$(TORCH)" --editable ".[dev]"
	touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV) site .mypy_cache .pytest_cache .ruff_cache .hypothesis
