# Every target sets itself up: python3.11, git, make and a C++ compiler are all that has to be there,
# and for `test` a Chromium, which is installed where that is possible.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := demo

# One thread a process: small matrix products on two cores lose more to barriers than they gain.
export OMP_NUM_THREADS ?= 1

.PHONY: venv browser screenshots test test-ray lint format docs reference demo bench bench-apply bench-gpu bench-trainer bench-openspiel gpu-check clean

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[trainer,dev,browser]'
# pip compiles on one processor; and not what it installs to be edited, which each test's process would.
# A package may hold a file for another Python, which does not compile here: that stops nothing.
	-$(BIN)/python -m compileall -q -j 0 -x '/tests?/|/testing/_internal/' $(VENV)/lib porttool src
	touch $@

# A Chromium for the tests of the review page: found on the PATH, else Debian's is installed.
browser:
	scripts/browser.sh

test: venv browser
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Pictures of the demo's review page into docs/images, taken by the page's own tests.
screenshots: venv browser demo
	PORTTOOL_SCREENSHOTS=$(DEMO) $(BIN)/python -m pytest -q tests/porttool/test_review_browser.py -k axe

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

# The site; `test` builds it too.
docs: venv
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "look at it:  $(BIN)/mkdocs serve, or site/index.html"

# Pages under docs/reference that say what the command line and port.yaml say of themselves.
reference: venv
	$(BIN)/python scripts/write_reference.py

demo: venv
	rm -rf $(DEMO)
	$(BIN)/porttool demo $(DEMO)
	$(BIN)/porttool apply --repo $(DEMO) --onto main
	$(BIN)/porttool verify --repo $(DEMO)
	@echo "look at it:  $(BIN)/porttool review --repo $(DEMO)"

# What porttool and the trainer claim of their speed, in minutes, into benchmarks/results/.
bench: venv
	$(BIN)/python -m benchmarks.evidence

# The plan's rows for a GPU, into the same folder. Exit code 3: there is no GPU here.
bench-gpu: venv
	$(BIN)/python -m benchmarks.evidence --device cuda

bench-apply: venv
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
