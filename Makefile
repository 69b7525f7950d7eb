# A thin front door; CMakeLists.txt builds. `make help` lists what there is.
.DEFAULT_GOAL := all
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
DESTDIR ?=
# Seconds that `make fuzz` spends on each target.
FUZZ_SECONDS ?= 60
PYTHON := /usr/bin/python3
C_FILES = $(shell git ls-files 'src/*.[ch]' 'include/*.h' 'test/*.[ch]')

all: build-release ## build/prazo, optimised

build-%:
	@cmake --preset $* > build/cmake-$*.log 2>&1 || { cat build/cmake-$*.log; \
	  echo "is something missing? scripts/install-deps.sh build test installs it"; exit 1; }
	@cmake --build --preset $* --parallel $(JOBS)
$(addprefix build-,release dev clang asan ubsan tsan fuzz cover): | build
build:
	@mkdir -p build

run: ## install what is missing, build, start demo service and gateway
	@scripts/run-quickstart.sh

test: ## everything that has to hold, with a closing summary
	@scripts/install-deps.sh build test
	@$(PYTHON) scripts/run-tests.py --jobs $(JOBS)

check: ## exactly what CI runs: both compilers, format, lint, test
	@.ci/run

lint: build-dev ## clang-tidy over our own code
	@git ls-files 'src/*.c' | xargs -P $(JOBS) -n 1 clang-tidy --quiet -p build/dev

fmt: ## format the C code
	@clang-format -i $(C_FILES)

fmt-check:
	@for file in $(C_FILES); do clang-format $$file | cmp -s $$file - || \
	  { echo "$$file: not formatted; make fmt"; false; } || bad=1; done; [ -z "$$bad" ]

fuzz: build-fuzz ## fuzz each target for FUZZ_SECONDS (60)
	@scripts/fuzz.sh build/fuzz $(FUZZ_SECONDS)

sim: build-dev ## the overload scenarios on virtual time; SEED=n replays one
	@$(if $(SEED),PRAZO_SEED=$(SEED)) build/dev/test/unit.core.admit_sim

cover: build-cover ## line coverage of the C tests in build/cover/report
	@scripts/cover.sh build/cover

bench: all ## figures next to nginx, HAProxy and h2o
	@scripts/install-deps.sh build bench
	@$(PYTHON) bench/bench.py

install: all ## into $(DESTDIR)$(PREFIX)
	@cmake --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX) > build/cmake-install.log
	@DESTDIR=$(DESTDIR) cmake --install build

clean: ## remove build/
	@rm -rf build

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

.PHONY: all run test check lint fmt fmt-check fuzz sim cover bench install clean help
