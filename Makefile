# The commands that README and .ci/run use. Each sets up what it needs: a virtual environment in .venv, rebuilt when pyproject.toml changes.
PYTHON ?= $(firstword $(foreach p,python3.13 python3.12 python3.11 python3,$(if $(shell $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo ok),$(p))))
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install

.PHONY: help demo test test-all test-real test-oldest test-scale test-charts e2e e2e-full bench bench-operator bench-apiserver soak lint format crds manifests pictures recordings clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: .venv/.run ## Run the product on a simulated cluster (KEEP=1 stays up; FAIL=policy, credentials, dns or node shows a fault)
	@$(BIN)/python -m clustersim demo $(if $(KEEP),--keep) $(if $(FAIL),--fail $(FAIL))

# Hypothesis draws its examples from this; SEED=... draws those of an earlier run again.
SEED := $(shell date +%s)
WORKERS := 3

# Each process of a run would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

test: .venv/.dev ## Run the tests: four minutes
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-seed=$(SEED) $(or $(ARGS),--all-rights)

test-all: test ## Run those too that take longer: permutations, processes, large numbers
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-seed=$(SEED) -m thorough $(ARGS)

# Of the tests on real clusters and API servers, FULL=1 runs all; SAMPLE=COMMIT runs a sixth of those marked full, which the
# commit chooses. PATHS are those of the loop tests to run, all by default.
CHOICE := $(if $(FULL),-m "not scale",$(if $(SAMPLE),--sample-of-full $(SAMPLE),-m "not full and not thorough"))

# One API server for each pytest worker: the operator watches all namespaces of its cluster.
WORK := $(or $(TESTBED_WORK),/var/tmp/tailnet-operator-testbed)
REAL_BEDS := $(addprefix $(WORK)-real-,1 2)

OLDEST ?=
UP := -m tests.e2e.testbed up --api-only $(if $(OLDEST),--oldest)

test-real: .venv/.dev ## Run the operator's loop tests on a real API server
	$(BIN)/python -m tests.e2e.testbed build kubernetes $(if $(OLDEST),kubernetes-oldest)
	@trap 'for bed in $(REAL_BEDS); do TESTBED_WORK=$$bed $(BIN)/python -m tests.e2e.testbed down --api-only; done' EXIT; \
	trap 'exit 130' INT TERM; \
	beds=; for bed in $(REAL_BEDS); do TESTBED_WORK=$$bed $(BIN)/python $(UP) & beds="$$beds $$!"; done; \
	failed=; for bed in $$beds; do wait $$bed || failed=1; done; test -z "$$failed" || exit 1; \
	$(BIN)/python -m pytest -n $(words $(REAL_BEDS)) $(patsubst %,--real-api %/api/kubeconfig.json,$(REAL_BEDS)) $(or $(PATHS),tests/operator tests/docs) $(CHOICE) $(ARGS)

test-scale: .venv/.dev ## Run the operator on 10,000 Services of a simulated cluster, or on SIZE, and print what it costs
	SCALE_SIZE=$(or $(SIZE),10000) $(BIN)/python -m pytest tests/operator/test_at_scale.py -m scale $(ARGS)

test-charts: .venv/.dev ## Run the tests of the chart and the CRDs (Go, the first time)
	@export TESTBED_WORK=$(WORK)-charts; \
	trap '$(BIN)/python -m tests.e2e.testbed down --api-only' EXIT; \
	trap 'exit 130' INT TERM; \
	$(BIN)/python $(UP) && $(BIN)/python -m pytest tests/charts $(ARGS)

e2e: .venv/.dev ## Run the tests on a real cluster and a real tailnet, built here (root, Go; the first time takes half an hour)
	$(BIN)/python -m tests.e2e.testbed build
	@mkdir -p build/e2e; echo "meanwhile, on API servers alone, the loop tests, and those of the chart: build/e2e/beside.log"; \
	setsid $(MAKE) --keep-going --no-print-directory test-real test-charts > build/e2e/beside.log 2>&1 & beside=$$!; \
	trap 'kill -- -$$beside; wait $$beside; exit 130' INT TERM; \
	$(BIN)/python -m pytest tests/e2e $(CHOICE) $(ARGS); whole=$$?; \
	wait $$beside; others=$$?; trap - INT TERM; cat build/e2e/beside.log; \
	test $$whole = 0 -a $$others = 0

e2e-full: ## Run those too that take longer, and the tests on the oldest Kubernetes
	@$(MAKE) --no-print-directory e2e FULL=1
	@$(MAKE) --no-print-directory test-oldest

test-oldest: ## Run the loop tests and those of the chart on an API server of the oldest Kubernetes that the chart promises
	@$(MAKE) --no-print-directory test-real test-charts OLDEST=1 WORK=$(WORK)-oldest

bench: .venv/.dev ## Compare the nameserver with the Go one, NSD and Knot (root, Go, cc; ten minutes)
	peers=$$($(BIN)/python -m tests.e2e.testbed peers) && \
	$(BIN)/python -m dnsbench --go-nameserver "$$peers" --results loadtest/results $(ARGS)

bench-operator: .venv/.dev ## Compare the operator with the Go one on a real API server, and measure its standby (Go; forty minutes)
	TESTBED_WORK=$(WORK)-bench \
	$(BIN)/python -m tests.e2e.benchground --repeat 2 --results loadtest/results $(ARGS)

bench-apiserver: .venv/.dev ## Compare the API server proxy with the Go one on a real cluster and tailnet (root, Go; ten minutes)
	$(BIN)/python -m tests.e2e.testbed build
	$(BIN)/python -m tests.e2e.benchapi

soak: .venv/.dev ## Run the nameserver under load, reloads and hostile packets for MINUTES (10), fuzz its loops with FUZZ_PACKETS (50 million), and Hypothesis on 2,000 examples a test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-seed=$(SEED) --hypothesis-profile=soak -m hypothesis
	FUZZ_SEED=$(SEED) FUZZ_PACKETS=$(or $(FUZZ_PACKETS),50000000) $(BIN)/python -m pytest -n $(WORKERS) -m thorough -k mutated tests/nameserver/test_udploop.py
	FUZZ_PACKETS=10000000 $(BIN)/python -m pytest -m thorough -k sanitizers tests/nameserver/test_udploop.py
	$(BIN)/python -m dnsbench soak --minutes $(or $(MINUTES),10) --results loadtest/results $(ARGS)

lint: .venv/.dev ## Check style, types, import contracts and the Dockerfile
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/hadolint --failure-threshold style Dockerfile

format: .venv/.dev ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

crds: .venv/.dev ## Write the CRDs from the models into the chart
	$(BIN)/python -m tsoperator.api.crds charts/tailscale-operator/files/crds

manifests: .venv/.dev ## Write the static manifests from the chart, its schema, and what tests compare with (Go, the first time)
	$(BIN)/python -m tests.charts.nearest
	helm=$$($(BIN)/python -m tests.e2e.testbed program helm) && \
	$$helm template operator charts/tailscale-operator --namespace tailscale --skip-tests > charts/manifests/operator.yaml
	helm=$$($(BIN)/python -m tests.e2e.testbed program helm) && \
	$$helm template operator charts/tailscale-operator --namespace tailscale --set dns.enabled=true \
		--show-only templates/rbac-cluster-dns.yaml > charts/manifests/cluster-dns.yaml
	helm=$$($(BIN)/python -m tests.e2e.testbed program helm) && \
	$$helm template operator charts/tailscale-operator --namespace tailscale --set apiServerProxyConfig.mode=true \
		--show-only templates/rbac-apiserver-proxy.yaml > charts/manifests/apiserver-proxy.yaml
	$(BIN)/python -m tests.charts.permissions
	$(BIN)/python -m tests.charts.golden

pictures: .venv/.run ## Draw the pictures of docs/ from their texts, and from the results of the benchmarks
	$(BIN)/python docs/pictures/draw.py
	$(BIN)/python -m docs.pictures.figures

recordings: .venv/.dev ## Record the demo and its dashboard for the documentation (root, Go the first time; two minutes)
	$(BIN)/python -m tests.e2e.demorecording docs/recorded/demo.svg
	$(BIN)/python -m tests.e2e.panels docs/recorded/dashboard.svg

# Where `make images` pushes to: one variable, such as ghcr.io/example. A registry without TLS wants ARGS=--plain-http, and
# PLATFORMS other than this machine's want qemu. ARCHIVE is a file instead, for clusters without a registry.
REGISTRY ?=
ARCHIVE ?=
PLATFORMS ?=
BASE := docker.io/library/python:3.13-slim

images: .venv/.dev ## Build the images and the chart, and push them to REGISTRY (buildah, Go), or write the images to the file ARCHIVE
	@test -n "$(REGISTRY)$(ARCHIVE)" || { echo "Say where to push to: make images REGISTRY=registry.example.org/tailnet," \
		"or where to write to: make images ARCHIVE=dist/images.tar" >&2; exit 1; }
ifneq ($(ARCHIVE),)
	PYTHONPATH=.ci $(BIN)/python -m release --archive "$(ARCHIVE)" --platforms "$(PLATFORMS)" --base "$(BASE)" --tag "$(TAG)" $(ARGS)
else
	crane=$$($(BIN)/python -m tests.e2e.testbed program crane) && \
	helm=$$($(BIN)/python -m tests.e2e.testbed program helm) && \
	PYTHONPATH=.ci $(BIN)/python -m release --registry "$(REGISTRY)" --platforms "$(PLATFORMS)" --base "$(BASE)" --tag "$(TAG)" \
		--crane "$$crane" --helm "$$helm" --digests dist/release.json $(ARGS)
endif

clean: ## Remove what these commands made
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist

.venv/.run: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: install it, or name it with PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "setting up .venv with $(PYTHON)"
	@$(PYTHON) -m venv --clear .venv
	@$(PIP) --editable '.[operator,nameserver,loadtest]'
	@touch $@

# The compiled UDP loop. Without a compiler there is none, and everything works all the same.
.venv/.udploop: .venv/.run $(wildcard nameserver/udploop/*)
	@$(BIN)/python nameserver/udploop/hatch_build.py nameserver/tsnameserver || true
	@touch $@

.venv/.dev: .venv/.run .venv/.udploop
	@echo "adding the development tools to .venv"
	@$(PIP) --editable '.[dev]'
	@touch $@
