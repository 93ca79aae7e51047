# Thole's tasks. `make` alone lists them; what takes more than a line is a script
# in .ci. Everything but Go, make and git is made here, see `make tools`.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

# Flags for `go test`, after those in GOFLAGS: make test TESTFLAGS='-run Finalizer -v'
TESTFLAGS ?=
# Flags for `go test -bench`: how often, and which.
BENCHCOUNT ?= 6
BENCH ?= .
# How long each fuzz target runs, and which ("package target").
FUZZTIME ?= 30s
FUZZ ?= .
# How long `make soak` operates on the plugin directory, and the seed of its
# operations, which it prints.
SOAK ?= 3m
SOAK_SEED ?=

# The control plane is a module of its own.
devcluster := cmd/thole-devcluster

# What a program is compiled from, folders too, since a file may go: $(call sources,DIR ...).
# The go command finds out for itself, but needs seconds for it: it reads all of Kubernetes.
sources = $(shell find $(1) \( -name testdata -o -name '*_test.go' \) -prune -o -print 2>/dev/null) $(shell go env GOROOT)/VERSION
program_sources := $(call sources,go.mod go.sum abi sdk host cmd/thole cmd/thole-tools cmd/internal internal)

plugins := $(patsubst plugins/%/main.go,%,$(wildcard plugins/*/main.go))
plugin_files := $(plugins:%=bin/plugins/%.wasm) \
	$(patsubst plugins/%/policy.yaml,bin/plugins/%.yaml,$(wildcard plugins/*/policy.yaml))
# What every plugin is compiled from, beside its own folder: packages that plugins share, too.
guest_sources := go.mod internal/toolchain/toolchain.go $(wildcard plugins/*/*/*.go) $(shell find abi sdk -name '*.go' ! -name '*_test.go' 2>/dev/null)

.PHONY: help
help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: tools
tools: ## make TinyGo available: from PATH, or built into .tools
	@.ci/tools/install

.PHONY: build
build: programs plugins ## build all programs and the plugins into bin

.PHONY: programs
programs: bin/thole bin/thole-tools devcluster tools ## build thole, and what authors of plugins need, into bin

.PHONY: demo
demo: programs ## build and run the example on a real control plane until Ctrl-C (DEMO_ONCE=1: until Ready)
	@.ci/demo

# IMAGE, VERSION, PLATFORM and ENGINE are those of .ci/image.
.PHONY: image
image: ## build the image of the host, by buildah, podman or docker
	@.ci/image

.PHONY: test-quick
test-quick: ## run the tests that need neither a control plane nor TinyGo
	@.ci/test quick $(TESTFLAGS)

.PHONY: test
test: ## run what two cores can test in minutes, on a real control plane
	@.ci/test usual $(TESTFLAGS)

# RACE_SHARE is that of .ci/test.
.PHONY: test-release
test-release: ## run what takes long: images, charts, a browser, Go as compiler, faults, the race detector
	@.ci/test release $(TESTFLAGS)

.PHONY: check
check: .tools/bin/golangci-lint .tools/bin/govulncheck .tools/bin/promtool ## run linters, and look for stale files and known vulnerabilities
	@.ci/check

.PHONY: format
format: .tools/bin/golangci-lint ## format the Go sources as `make check` wants them
	@.tools/bin/golangci-lint fmt

.PHONY: bench
bench: tools devcluster .tools/bin/benchstat ## run the benchmarks; raw results in bench.txt, medians here
	go test -timeout 4h -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) $(TESTFLAGS) ./... | tee bench.txt
	@.tools/bin/benchstat bench.txt

# `make test-release` has a shorter form of the same.
.PHONY: soak
soak: soak-arguments tools devcluster ## change, break and remove plugins while everything runs, for SOAK; hours are possible; then every fault
	SOAK='$(SOAK)' SOAK_SEED='$(SOAK_SEED)' go test -count 1 -timeout 0 -p 1 -v -run '^TestSoak|^TestReviewsOfRequestsOfUsers$$' $(TESTFLAGS) ./host/internal/e2e ./host/internal/scenario

# Before minutes go into what SOAK and SOAK_SEED then end.
.PHONY: soak-arguments
soak-arguments:
	@.ci/soak-arguments '$(SOAK)' '$(SOAK_SEED)'

.PHONY: fuzz
fuzz: tools ## run every fuzz target for FUZZTIME each; FUZZ=pattern for some of them
	@FUZZTIME='$(FUZZTIME)' FUZZ='$(FUZZ)' .ci/fuzz

.PHONY: clean
clean: ## remove what build, bench and tests made; .tools stays
	rm -rf bin bench.txt

bin/thole: $(program_sources)
	@.ci/go-build cmd/thole $@

bin/thole-tools: $(program_sources)
	@.ci/go-build cmd/thole-tools $@

.PHONY: devcluster
devcluster: bin/thole-devcluster

bin/thole-devcluster: $(call sources,$(devcluster))
	@.ci/go-build $(devcluster) $@

.PHONY: plugins
plugins: $(plugin_files)

.SECONDEXPANSION:
bin/plugins/%.wasm: $$(wildcard plugins/$$*/*.go) $(guest_sources) | tools bin/thole-tools
	bin/thole-tools build -o $@ ./plugins/$*

bin/plugins/%.yaml: plugins/%/policy.yaml
	@mkdir -p $(@D)
	cp $< $@

.tools/bin/promtool:
	@.ci/tools/promtool

# The pinned tools, each in a module of its own; gofumpt comes with the linter.
.tools/bin/golangci-lint: .ci/tools/lint/go.sum
.tools/bin/govulncheck: .ci/tools/govulncheck/go.sum
.tools/bin/benchstat: .ci/tools/benchstat/go.sum
.tools/bin/gotestsum: .ci/tools/gotestsum/go.sum
.tools/bin/%:
	@echo "tools: building $(@F), once"
	@mkdir -p .tools/new .tools/bin
	@cd $(<D) && GOFLAGS=-mod=readonly go build -buildvcs=false -o $(CURDIR)/.tools/new/ tool
	@mv .tools/new/$(@F) $@
	@touch $@
