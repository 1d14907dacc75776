# Needs only make and a Python >= 3.12 somewhere on the machine; everything else goes into .venv.
# `make help` prints this file: a comment `##@ Group` begins a group, `target: ... ## text` describes a target.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# Where it is set, each of the many processes of Spark would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
.NOTPARALLEL:
.PHONY: help venv servers constraints demo test test-long test-strict compat spark spark-matrix lowest test-versions soak fuzz prove check lint types format audit bench bench-peers bench-scale bench-spark reliability docs cli-docs explorer-images parity clean

BIN := .venv/bin
READY := .venv/.ready-
# Four processes for two cores, as those of Spark wait for its JVM; tests/conftest.py divides the Spark tests between two sessions.
# What a test wrote is kept only if it failed: it may be in memory.
PYTEST = TMPDIR=$$(scripts/temporary_folder.sh) $(BIN)/python -m pytest -n 4 --dist loadscope \
    --durations=25 -o tmp_path_retention_policy=failed
ARGS ?=

##@ Set up
help: ## print this list (the default)
	@awk -F ':.*## ' '/^##@ / { printf "%s%s\n", line, substr($$0, 5); line = "\n" } \
	    /^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
	@printf "\nARGS='...' is passed on to pytest, the demo or the benchmark; PYTHON=... chooses the interpreter.\n"

# Made once, and again whenever the dependencies change. Some have others in them.
PARTS_dev := test demo
PARTS_bench := test demo
PARTS_test := demo
$(READY)%: pyproject.toml constraints.txt scripts/bootstrap.sh scripts/find_python.sh
	@scripts/bootstrap.sh $*
	@rm -rf .mypy_cache # it would remember which packages were missing
	@touch $@ $(addprefix $(READY),$(PARTS_$*))

venv: $(READY)dev ## install everything for development into .venv (other targets do it when needed)

# Servers that cannot be installed into .venv. Where they cannot be installed their tests are skipped, and report it.
servers: $(READY)test ## install the object stores that tests talk to into .build
	-@scripts/install_servers.sh

constraints: $(READY)dev ## write constraints.txt from what is installed in .venv
	{ head -n 1 constraints.txt; $(BIN)/pip freeze --exclude-editable | LC_ALL=C sort -f; } > constraints.new
	mv constraints.new constraints.txt

##@ Run
demo: $(READY)demo ## files -> Spark -> one commit -> SQL -> time travel -> xarray and icechunk, in two minutes
	@$(BIN)/python -m demo.run $(ARGS)

##@ Test
test: $(READY)test servers ## every test but the long ones: unit, properties, conformance, compat, servers, Spark, command line
	$(PYTEST) -m "not long" $(ARGS)

test-long: $(READY)test servers ## tests that take minutes: a Spark cluster whose workers and drivers are killed
	$(PYTEST) -m long $(ARGS)

test-strict: export FRAZIL_STRICT = 1
test-strict: test ## as `make test`; a skipped test is a failure

compat: $(READY)test ## only the tests that run the reference implementation beside frazil
	$(PYTEST) tests/compat $(ARGS)

spark: $(READY)test ## only the tests that need Spark
	$(BIN)/python -m pytest -m spark $(ARGS)

spark-matrix: $(READY)test ## write docs/spark-versions.md: tests with PySpark 4.1, 4.2 and 4.3, each in .build
	scripts/spark_matrix.sh

lowest: $(READY)test ## unit and compat tests with the lowest versions of dependencies that are allowed, in .build
	ARGS="$(ARGS)" scripts/lowest.sh

test-versions: ## unit and compat tests with every Python >= 3.12 on this machine, each in .build
	ARGS="$(ARGS)" scripts/test_versions.sh

soak: $(READY)test ## ten minutes of 8 writers, 8 readers, garbage collection and expiry, on disk and on S3: figures, and nothing lost
	$(BIN)/python -m tests.soak.load $(ARGS)

fuzz: $(READY)test ## damaged input for every decoder, guided by coverage: ARGS='--seconds 600'
	$(BIN)/python -m tests.fuzz.run $(ARGS)

prove: $(READY)test ## check the models of the commit protocol (proofs/) in every state, and that planted bugs are found; minutes
	$(BIN)/python -m scripts.prove $(ARGS)

##@ Check
check: lint types test ## everything that CI runs

lint: $(READY)dev ## ruff: rules and formatting; words (scripts/words.toml)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m scripts.lint_words

types: $(READY)dev ## mypy, strict
	$(BIN)/mypy

format: $(READY)dev ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

audit: $(READY)dev ## known vulnerabilities of the packages in constraints.txt, where a database can be reached
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip $(ARGS)

##@ Measure
bench: $(READY)test ## frazil against the reference, as ratios
	$(BIN)/python -m benchmarks $(ARGS)

bench-peers: $(READY)bench ## one array beside TensorStore, zarrs, and zarr's pipelines on the reference
	$(BIN)/python -m benchmarks.peers $(ARGS)

bench-scale: $(READY)test ## cost against size: references, history, arrays, writers (hours; ARGS=--quick: minutes)
	$(BIN)/python -m benchmarks.scale $(ARGS)

bench-spark: $(READY)test ## frazil on Spark beside Parquet, dask with the reference, xarray-sql and DuckDB
	$(BIN)/python -m benchmarks.spark $(ARGS)

reliability: $(READY)test ## write the table of docs/reliability.md: every fault at every moment, and what was lost
	$(BIN)/python -m scripts.make_reliability $(ARGS)

##@ Docs
docs: $(READY)test ## the pages as a site with a search and a reference, in .build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open .build/site/index.html"

explorer-images: $(READY)test ## write docs/images/explorer: its main pages at three widths, in light and dark
	$(BIN)/python -m scripts.explorer_images

cli-docs: $(READY)test ## write docs/cli.md: run the commands it shows, and record their output
	$(BIN)/python -m scripts.make_cli_docs

parity: $(READY)test ## write docs/parity.md: which names of icechunk exist, which do not and why
	$(BIN)/python -m scripts.make_parity

##@ Clean
clean: ## remove everything that was made, .venv included
	rm -rf .venv .build .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output src/*.egg-info
	find src tests benchmarks demo examples scripts -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
