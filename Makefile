# Every target sets itself up: python3.11, git, make and a C++ compiler are all that has to be there.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := demo

# One thread a process: small matrix products on two cores lose more to barriers than they gain.
export OMP_NUM_THREADS ?= 1

.PHONY: venv test lint format demo bench clean

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[trainer,dev]'
	touch $@

test: venv
	$(BIN)/python -m pytest -n 2

lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: venv
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: venv
	rm -rf $(DEMO)
	$(BIN)/porttool demo $(DEMO)
	$(BIN)/porttool apply --repo $(DEMO) --onto main
	$(BIN)/porttool verify --repo $(DEMO)
	@echo "look at it:  $(BIN)/porttool review --repo $(DEMO)"

bench: venv
	$(BIN)/python -m benchmarks.apply

clean:
	rm -rf $(DEMO) .pytest_cache .mypy_cache .ruff_cache .hypothesis
