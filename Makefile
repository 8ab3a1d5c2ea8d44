# Thin: each target is one line that a person could type.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ENGINE ?= docker
BASE_IMAGE ?= debian:bookworm-slim

.PHONY: demo test lint bench image

demo: ; @scripts/setup demo $(EXAMPLE) && examples/demo $(EXAMPLE)
# Engine tests one after the other: each proves that its engine holds nothing of it afterwards.
test: ; @scripts/setup test && $(BIN)/python -m pytest -n 2 --dist worksteal --ignore=tests/engine $(PYTEST_ARGS) && $(BIN)/python -m pytest tests/engine $(PYTEST_ARGS) && $(MAKE) --no-print-directory lint
lint: ; @$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
bench: ; @scripts/setup test && $(BIN)/python benchmarks/run.py $(BENCH_ARGS)
image: ; @$(ENGINE) build --build-arg BASE_IMAGE=$(BASE_IMAGE) -t berth-runtime:local runtime && $(ENGINE) build --build-arg BASE_IMAGE=$(BASE_IMAGE) -t berth-sandbox:local sandbox
