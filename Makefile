# Every target sets itself up: python3.11, git, make and a C++ compiler are all that has to be there.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := demo

# One thread a process: small matrix products on two cores lose more to barriers than they gain.
export OMP_NUM_THREADS ?= 1

.PHONY: venv test test-ray lint format demo bench bench-trainer bench-openspiel gpu-check clean

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[trainer,dev]'
	touch $@

test: venv
	$(BIN)/python -m pytest -n 2

# Apart from `test`: ray takes longer to install, and more room, than CI has for one test.
test-ray: venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[ray]'
	RAY_raylet_start_wait_time_s=300 $(BIN)/python -m pytest tests/deep_cfr/ray_cluster.py

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

bench-trainer: venv
	$(BIN)/python -m benchmarks.trainer

# Brings the extra `openspiel` along.
bench-openspiel: venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[openspiel]'
	$(BIN)/python -m benchmarks.against_openspiel

# Exit code 3: there is no GPU here.
gpu-check:
	scripts/gpu_check.sh

clean:
	rm -rf $(DEMO) .pytest_cache .mypy_cache .ruff_cache .hypothesis
