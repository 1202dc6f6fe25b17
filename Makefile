# `make demo` and `make test` need Python 3.11 with pip and venv, and nothing else.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

define check-python
$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
  echo "tff_textpriv needs Python 3.11 (TensorFlow Federated has no build for newer" \
    "ones), and $(PYTHON) is $$($(PYTHON) --version 2>&1): set PYTHON=/path/to/python3.11"; \
  exit 1; }
endef

# An environment for each file of requirements.
PEERS := $(patsubst benchmarks/%.txt,build/%/.installed,$(wildcard benchmarks/peers/*.txt))

.PHONY: help demo picture test lint unit format lock dependencies build-files clean benchmark-peers

help:
	@echo 'make demo    install into .venv and watch a private language model train'
	@echo 'make picture  take the picture of the README, with a chromium, from the page of the demo'
	@echo 'make test    install into .venv and run linters and tests'
	@echo 'make lint    only the linters;  make unit  only the tests;  make format'
	@echo 'make lock    resolve the requirements anew into requirements.lock'
	@echo 'make dependencies   write docs/dependencies.md: packages and their licences'
	@echo 'make build-files   write the BUILD files: modules, imports, who may import'
	@echo 'make benchmark-peers   install what benchmarks/speed.py compares with'

$(INSTALLED): requirements.lock setup.py
	@$(check-python)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: $(INSTALLED)
	$(BIN)/python -m tff_textpriv demo

picture: demo
	$(CHROMIUM) --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=900,1180 \
	  --screenshot=docs/figures/report.png \
	  file://$(CURDIR)/runs/studies/demo_stackoverflow/report.html

test: lint unit

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

unit: $(INSTALLED)
	$(BIN)/python -m pytest

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# TFF's own pin of jaxlib is no longer published, and pip cannot override a pin: uv
# resolves with requirements.overrides, and pip then installs the result as it is
# (--no-deps), against the hashes.
lock:
	@$(check-python)
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet uv
	{ echo '# Made by `make lock` from setup.py and requirements.overrides; install with'; \
	  echo '# pip install --no-deps --require-hashes -r requirements.lock'; \
	  build/lock/bin/uv pip compile setup.py --quiet --extra dev --extra notebooks \
	    --override requirements.overrides --python-version 3.11 \
	    --python-platform x86_64-manylinux_2_31 --generate-hashes --no-header \
	    --no-annotate; } > build/requirements.lock
	mv build/requirements.lock requirements.lock

dependencies: $(INSTALLED)
	$(BIN)/python .ci/dependencies.py > docs/dependencies.md

build-files:
	$(PYTHON) .ci/build_files.py

# In environments of their own: PyTorch, JAX and TensorFlow want different packages.
benchmark-peers: $(PEERS)

build/peers/%/.installed: benchmarks/peers/%.txt
	@$(check-python)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet -r $<
	@touch $@

clean:
	rm -rf $(VENV) build
