# Needs only make and a Python >= 3.12 somewhere on the machine; everything else goes into .venv.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo servers test test-long soak reliability lowest audit fuzz test-strict check lint types format compat spark spark-matrix bench bench-spark parity docs cli-docs constraints clean

BIN := .venv/bin
READY := .venv/.ready-
# Two processes; tests/conftest.py keeps all Spark tests in one of them, so there is one Spark session.
# What a test wrote is kept only if it failed: it may be in memory.
PYTEST = TMPDIR=$$(scripts/temporary_folder.sh) $(BIN)/python -m pytest -n 2 --dist loadscope \
    --durations=25 -o tmp_path_retention_policy=failed
ARGS ?=

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo "  Options: ARGS='...' is passed on to pytest, the demo or the benchmark; PYTHON=... chooses the interpreter."

# Made once, and again whenever the dependencies change.
$(READY)%: pyproject.toml constraints.txt scripts/bootstrap.sh scripts/find_python.sh
	@scripts/bootstrap.sh $*
	@rm -rf .mypy_cache # it would remember which packages were missing
	@touch $@

demo: $(READY)demo ## files -> Spark -> one commit -> SQL -> time travel -> xarray and icechunk, in two minutes
	@$(BIN)/python -m demo.run $(ARGS)

# Servers that cannot live in .venv. Where they cannot be installed their tests are skipped, and say so.
servers: $(READY)test ## the object stores that tests talk to, into .build
	-@scripts/install_servers.sh

test: $(READY)test servers ## every test but the long ones: unit, properties, conformance, compat, servers, Spark, command line
	$(PYTEST) -m "not long" $(ARGS)

test-long: $(READY)test servers ## what takes minutes: a Spark cluster whose workers and drivers are killed
	$(PYTEST) -m long $(ARGS)

soak: $(READY)test ## ten minutes of 8 writers, 8 readers, garbage collection and expiry, on disk and on S3: figures, and nothing lost
	$(BIN)/python -m tests.soak.load $(ARGS)

fuzz: $(READY)test ## damaged input for every decoder, following what it reaches: ARGS='--seconds 600'
	$(BIN)/python -m tests.fuzz.run $(ARGS)

reliability: $(READY)test ## write the table of docs/reliability.md: every fault at every moment, and what was lost
	$(BIN)/python -m scripts.make_reliability $(ARGS)

lowest: $(READY)test ## unit and compat tests with the lowest versions of dependencies that are allowed, in .build
	ARGS="$(ARGS)" scripts/lowest.sh

audit: $(READY)dev ## known vulnerabilities of what constraints.txt names, where a database can be reached
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip $(ARGS)

test-strict: export FRAZIL_STRICT = 1
test-strict: test ## the same; a skipped test is a failure

check: lint types test ## what CI runs

lint: $(READY)dev ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)dev ## mypy, strict
	$(BIN)/mypy

format: $(READY)dev ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

compat: $(READY)test ## only the tests that run the reference implementation beside frazil
	$(PYTEST) tests/compat $(ARGS)

spark: $(READY)test ## only the tests that need Spark
	$(BIN)/python -m pytest -m spark $(ARGS)

spark-matrix: $(READY)test ## write docs/spark-versions.md: what holds with PySpark 4.1, 4.2 and 4.3, each in .build
	scripts/spark_matrix.sh

bench: $(READY)test ## frazil against the reference, as ratios
	$(BIN)/python -m benchmarks $(ARGS)

bench-spark: $(READY)test ## frazil on Spark against dask with the reference, and against Parquet
	$(BIN)/python -m benchmarks.spark $(ARGS)

parity: $(READY)test ## write docs/parity.md: what of icechunk is there, what is not and why
	$(BIN)/python -m scripts.make_parity

docs: $(READY)test ## these pages as a site with a search and a reference, in .build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open .build/site/index.html"

cli-docs: $(READY)test ## write docs/cli.md: run the commands it shows, and put down what they print
	$(BIN)/python -m scripts.make_cli_docs

constraints: $(READY)dev ## write constraints.txt from what is installed in .venv
	{ head -n 1 constraints.txt; $(BIN)/pip freeze --exclude-editable | LC_ALL=C sort -f; } > constraints.new
	mv constraints.new constraints.txt

clean: ## remove what was made, .venv included
	rm -rf .venv .build .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output src/*.egg-info
	find src tests benchmarks demo examples scripts -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
