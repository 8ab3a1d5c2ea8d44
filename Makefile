# Thin: each target is one line that a person could type.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ENGINE ?= docker
BASE_IMAGE ?= debian:bookworm-slim

.PHONY: demo test test-engines lint bench image

demo: ; @scripts/setup demo $(EXAMPLE) && examples/demo $(EXAMPLE)
test: ; @scripts/setup test && $(BIN)/python -m pytest -n 2 --dist worksteal --ignore=tests/engine $(PYTEST_ARGS) && $(MAKE) --no-print-directory lint
# One after the other: each test proves that its engine holds nothing of it afterwards.
test-engines: ; @scripts/setup test && $(BIN)/python -m pytest $(PYTEST_ARGS) $(or $(ENGINE_TESTS),tests/engine)
lint: ; @$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
bench: ; @scripts/setup test && $(BIN)/python benchmarks/run.py $(BENCH_ARGS)
image: ; @$(ENGINE) build --build-arg BASE_IMAGE=$(BASE_IMAGE) -t berth-runtime:local runtime && $(ENGINE) build --build-arg BASE_IMAGE=$(BASE_IMAGE) -t berth-sandbox:local sandbox
