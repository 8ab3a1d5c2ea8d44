# Thin: each target is one line that a person could type.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench image

demo: ; @scripts/setup demo $(EXAMPLE) && examples/demo $(EXAMPLE)
test: ; @scripts/setup test && $(BIN)/python -m pytest $(PYTEST_ARGS) && $(MAKE) --no-print-directory lint
lint: ; @$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
bench: ; @scripts/setup test && $(BIN)/python benchmarks/run.py $(BENCH_ARGS)
image: ; @echo "the images are not there yet"
