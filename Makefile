# One command per task, the same for people and for CI. Everything runs from .venv, made from requirements.lock.
PY := .venv/bin/python
STAMP := .venv/.installed

.PHONY: demo test runtimes check format generate lock bench conformance clean

demo: $(STAMP) ## GPUs discovered, published, allocated and prepared, on an embedded cluster
	.venv/bin/dra-driver demo $(ARGS)

test: $(STAMP) ## all tests that need no other program
	$(PY) -m pytest $(ARGS)

runtimes: ## container runtimes for the tests that need real ones, unpacked into .runtimes/
	python3 scripts/runtimes.py

check: $(STAMP) ## format, lint, types, imports, manifests, generated files up to date
	.venv/bin/ruff format --check
	.venv/bin/ruff check
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache
	$(PY) scripts/manifests.py
	$(PY) scripts/generate.py --check
	$(PY) scripts/embedded_schemas.py --check

format: $(STAMP) ## let ruff format and fix
	.venv/bin/ruff format
	.venv/bin/ruff check --fix

generate: $(STAMP) ## kubelet/pb from proto/, api/ and reference pages from the package
	$(PY) scripts/generate.py
	$(PY) scripts/embedded_schemas.py

bench: $(STAMP) ## speed and memory, beside a bare plugin's, from the same run
	$(PY) -m bench

conformance: $(STAMP) ## vectors judged by Kubernetes; VECTORS=DIRECTORY runs others than ours
	$(PY) scripts/conformance.py $(VECTORS)

lock: $(STAMP) ## pin and hash all dependencies anew
	$(PY) scripts/lock.py $(ARGS)

PYTHON ?= python3

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	touch $@

clean: ## remove .venv and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
