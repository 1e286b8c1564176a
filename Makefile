# Every command a person or a CI machine needs. The only prerequisite on a fresh
# Debian machine is Go; `make test` installs the rest (tools/setup/install).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The release built into the image; empty: the binary says which commit it is of.
RELEASE   ?=
PACKAGES  ?= ./...
# Clusters of real processes that are killed and cut take minutes and want the machine
# to themselves: `make test-cluster`.
TESTED = $(if $(filter ./...,$(PACKAGES)),$(shell go list ./... | grep -vE '/tests/(cluster|alerts|backup|firsthour|upgrading)$$'),$(PACKAGES))
# These render charts and read sources by the thousand: no goroutine of the broker meets
# another there, and under the race detector they take most of the time of all.
RACELESS = $(if $(filter ./...,$(PACKAGES)),$(shell go list ./tests/contract/... ./tests/lint ./tests/nats))
TESTFLAGS ?=
# -again: failed tests run once more, alone, and are listed apart when they pass then.
AGAIN     ?=
FUZZTIME  ?= 20s
SOAKTIME  ?= 10m
BENCHFLAGS ?=
REPLICAS  ?= 2
T         ?= 5s
LISTEN    ?=

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What is interrupted by Ctrl-C is the program itself: `go run` would end with an error.
.PHONY: run
run: ## Start a broker to try out on this machine; LISTEN=0.0.0.0 for others to reach it
	@go build -o bin/broker ./broker
	@exec bin/broker $(if $(LISTEN),--host $(LISTEN))

.PHONY: cluster
cluster: ## Start REPLICAS (2) replicas with NATS and PostgreSQL; says how to connect and how to break them
	@tools/setup/install cluster
	@go build -o bin/localcluster ./tools/localcluster
	@exec bin/localcluster up --replicas $(REPLICAS)

.PHONY: setup
setup: ## Install what the tests need: Debian packages and npm packages, if absent
	@tools/setup/install

.PHONY: test
test: setup ## Run the tests, all that run the broker with the race detector; the last line counts passed and failed
	@total=$${TESTREPORT_TOTAL:-}; [ -n "$$total" ] || { total=$$(mktemp); trap 'rm -f "$$total"' EXIT; }; \
	export TESTREPORT_TOTAL=$$total; failed=0; \
	$(if $(RACELESS),go run ./tools/testreport $(AGAIN) -timeout 14m $(TESTFLAGS) $(RACELESS) || failed=1;) \
	go run ./tools/testreport $(AGAIN) -race -timeout 14m $(TESTFLAGS) $(filter-out $(RACELESS),$(TESTED)) || failed=1; \
	exit $$failed

# Alerts wait, for minutes that their rules ask for: the others go on beside them.
.PHONY: test-cluster
test-cluster: setup ## Kill, pause, slow and cut clusters of real processes at memberTTL T (5s); writes runbooks/failure-table.md
	@failed=0; \
	go run ./tools/testreport $(AGAIN) -count 1 -timeout 90m ./tests/cluster -args -T $(T) -rewrite || failed=1; \
	go run ./tools/testreport $(AGAIN) -count 1 -timeout 14m ./tests/conformance -args -replicas 2 || failed=1; \
	go run ./tools/testreport $(AGAIN) -count 1 -timeout 30m -p 2 ./tests/alerts ./tests/backup ./tests/firsthour ./tests/upgrading || failed=1; \
	exit $$failed

# A cluster of yours instead of the lab: its kubeconfig, and the registry it pulls from.
E2E_KUBECONFIG ?=
E2E_REGISTRY   ?=
E2EFLAGS       ?=
KUBELAB = go run -C tools/kubelab .

.PHONY: lab
lab: ## Bring up a real Kubernetes of three nodes on this machine (tools/kubelab); needs root
	@tools/setup/install lab
	@$(KUBELAB) up --nodes 3
	@$(KUBELAB) env

.PHONY: lab-down
lab-down: ## Take it down
	@$(KUBELAB) down

.PHONY: e2e
e2e: ## Install the chart on a real Kubernetes, break it in every way, and print measured beside promised
	@tools/setup/install $(if $(E2E_KUBECONFIG),images,lab)
	@E2E_KUBECONFIG="$(E2E_KUBECONFIG)" E2E_REGISTRY="$(E2E_REGISTRY)" tests/kubernetes/run $(E2EFLAGS)

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@unformatted="$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go'))"; \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed:"; echo "$$unformatted"; exit 1; fi
	go vet $(PACKAGES)
	go tool staticcheck $(PACKAGES)

.PHONY: bench
bench: ## Measure this broker beside mosquitto, mochi-mqtt and nats-server in turns; BENCHFLAGS=--rewrite shows it in broker/README.md
	@tools/setup/install
	go run ./tools/mqttload compare $(BENCHFLAGS)

.PHONY: bench-cluster
bench-cluster: ## Measure two replicas beside the same, in the same cases
	@tools/setup/install
	go run ./tools/mqttload cluster $(BENCHFLAGS)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (20s) each
	@tools/setup/fuzz $(FUZZTIME)

.PHONY: soak
soak: ## Load one broker, then a cluster, for SOAKTIME (10m) a fault, and check that nothing is lost
	go test -count 1 -timeout 0 -v ./tests/crash -for $(SOAKTIME)
	go test -race -count 1 -timeout 0 -v -run 'For$$' ./tests/simulation -for $(SOAKTIME)
	go test -count 1 -timeout 0 -v -run 'Slow|QoS2' ./tests/cluster -T 10s -long $(SOAKTIME) -kills 60 -rewrite

.PHONY: image
image: ## Write dist/broker-oci.tar, an OCI archive for linux/amd64 and linux/arm64, without Docker
	go run ./tools/image -release "$(RELEASE)" -output dist/broker-oci.tar
