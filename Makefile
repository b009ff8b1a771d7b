# Two commands to begin with: make demo, make test. `make help` lists the rest.

SHELL := /bin/sh
# A tag and a branch may have any name. So recipes take names from the environment, as "$$VERSION": there a shell does
# not read them as commands.
ifndef VERSION
VERSION := $(shell hack/version.sh)
endif
DIST ?= $(CURDIR)/dist
PUBLISH_TOOLS ?= $(CURDIR)/bin/publish
IMAGE ?= ghcr.io/rdma-dev/dra-driver-rdma:$(VERSION)
LDFLAGS := -s -w -X github.com/rdma-dev/dra-driver-rdma/internal/base/version.Version=$$VERSION -X main.version=$$VERSION
# grpcnotrace leaves templates out, with which the linker would keep every method of every type (docs/dev/benchmarks.md).
TAGS := grpcnotrace
# One way to compile: hack/env.sh says which. GOGC spends memory on the compiler's heap for a fourth of its time.
export GOFLAGS := $(shell . hack/env.sh && echo "$$GOFLAGS")
export CGO_ENABLED := 0
GO := GOGC=400 GOMEMLIMIT=2GiB go
GOBUILD := $(GO) build -tags $(TAGS) -ldflags "$(LDFLAGS)"
build image dist publish publish-tools docs: export VERSION := $(VERSION)
build image dist publish publish-tools docs: export IMAGE := $(IMAGE)
build image dist publish publish-tools docs: export DIST := $(DIST)
build image dist publish publish-tools docs: export PUBLISH_TOOLS := $(PUBLISH_TOOLS)

.DEFAULT_GOAL := help
.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The caller owns bin, even if root writes into it.
demo test proof test-long: | bin
bin:
	@mkdir -p bin

.PHONY: demo
demo: ## show the main job on a real cluster with a bundled host
	hack/as-root.sh hack/demo.sh

.PHONY: test
test: ## unit tests, golden files, chart and documents, and the promises of the README on one cluster
	hack/as-root.sh hack/test.sh

.PHONY: proof
proof: ## everything: the same, lint, races, packages, all clusters, a virtual machine with a real RDMA kernel
	hack/as-root.sh hack/proof.sh

.PHONY: test-long
test-long: ## the proof with larger seeds and counts, more variants, and fuzzing
	hack/as-root.sh env TEST_LONG=1 hack/proof.sh

.PHONY: test-queues
test-queues: packages-demo testbed-image ## jobs with claims under Kueue, JobSet, LeaderWorkerSet and MPI operator, which it builds; for the night
	hack/as-root.sh go -C test/cluster run ./cmd/cluster build >/dev/null
	hack/as-root.sh go -C test/cluster test -count=1 -timeout 90m -v ./e2e/queues

.PHONY: build
build: ## build bin/cdi-gen, bin/dra-driver, bin/rdma-hook and bin/kubectl-rdma
	@hack/version.sh "$$VERSION"
	$(GOBUILD) -o bin/ ./cmd/...

.PHONY: image
image: build ## build the container image as bin/image.tar, without a container engine
	packaging/image.sh "$$IMAGE" bin/image.tar bin/dra-driver bin/rdma-hook

.PHONY: testbed-image
testbed-image: ## build it under the name that tests on clusters and in virtual machines use
	@$(MAKE) --no-print-directory image IMAGE=localhost/dra-driver-rdma:testbed

PERFTEST_IMAGE ?= ghcr.io/rdma-dev/rdma-perftest:$(VERSION)
perftest-image: export PERFTEST_IMAGE := $(PERFTEST_IMAGE)
perftest-image: export VERSION := $(VERSION)
.PHONY: perftest-image
perftest-image: build ## build the image of kubectl rdma test as bin/rdma-perftest.tar, from packages of Debian
	rm -rf bin/perftest
	packaging/perftest/unpack.sh "$$(go env GOHOSTARCH)" bin/perftest
	TREE=bin/perftest packaging/image.sh "$$PERFTEST_IMAGE" bin/rdma-perftest.tar bin/kubectl-rdma

.PHONY: dist
dist: ## build all files of a release in dist/: images, chart, packages, plugin, bills of materials, checksums
	packaging/dist.sh "$$VERSION" "$$DIST"

.PHONY: publish publish-tools
publish: ## publish dist/ as the release of this tag: image, chart, release page, signatures (the release workflow)
	PATH="$$PUBLISH_TOOLS:$$PATH" hack/publish.sh "$$VERSION" "$$DIST"
publish-tools: ## build oras and cosign for it; Go's checksum database vouches for them
	GOBIN="$$PUBLISH_TOOLS" $(GO) install oras.land/oras/cmd/oras@v1.3.6
	GOBIN="$$PUBLISH_TOOLS" $(GO) install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3

SITE ?= $(CURDIR)/bin/site
docs: export SITE := $(SITE)
.PHONY: docs
docs: site/node_modules/.package-lock.json ## build the documentation as a web site in bin/site (needs Node.js 18 or newer)
	cd site && npx vitepress build --outDir "$$SITE"
site/node_modules/.package-lock.json: site/package-lock.json
	npm ci --prefix site --no-audit --no-fund --ignore-scripts
	@touch $@

.PHONY: picture
picture: ## make docs/fabric.png of the page that go test ./internal/inspect -update writes (needs chromium)
	hack/picture.sh

.PHONY: demo-picture
demo-picture: ## make docs/demo.svg and docs/why.svg of what make demo prints
	hack/demo-picture.sh

.PHONY: lint
lint: ## gofmt, go vet and staticcheck over all modules
	hack/lint.sh

.PHONY: vm-test
vm-test: packages-vm testbed-image ## real RDMA traffic in containers, in a virtual machine with a real RDMA kernel
	hack/as-root.sh go -C test/vm test -count=1 -p 1 -timeout 40m ./...

.PHONY: bench
bench: build ## what the driver costs over floors: bin/bench.txt for benchstat, and test/bench/results.md
	hack/as-root.sh go -C test/bench run ./cmd/bench -output "$$PWD/bin/bench.txt" -report "$$PWD/test/bench/results.md"

.PHONY: bench-drivers bench-placement
bench-drivers: packages-demo ## hundreds of drivers beside a real API server: test/cluster/scale/drivers.md, 40 minutes
	hack/as-root.sh go -C test/cluster test -run '^$$' -bench 'Drivers$$' -benchtime 1x -timeout 3h ./scale -report "$$PWD/test/cluster/scale"
bench-placement: packages-demo ## jobs on 1,024 nodes, with and without a label of their leaf: test/cluster/scale/placement.md
	hack/as-root.sh go -C test/cluster test -run '^$$' -bench 'Placement$$|Rails$$' -benchtime 1x -timeout 3h ./scale -report "$$PWD/test/cluster/scale"

.PHONY: figures
figures: ## write docs/dev/figures.md from the records of the last make test and make proof
	bin/testlog figures bin/records >bin/figures.md
	mv bin/figures.md docs/dev/figures.md

.PHONY: microbench
microbench: ## the benchmarks of the main module's packages
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: golden
golden: ## rewrite golden files and fixture machines; look at the diff before you commit it
	go run ./tools/machine generate
	go run ./tools/schema
	go run ./tools/reference
	go test $$(grep -rlE --include='*_test.go' '"update"|internal/test/golden"' cmd internal pkg test/chart test/docs test/monitoring | xargs -n1 dirname | sort -u | sed 's|^|./|') -update

.PHONY: cluster-up cluster-down
cluster-up: packages-demo ## bring up the embedded cluster (test/cluster/README.md)
	hack/as-root.sh go -C test/cluster run ./cmd/cluster up
cluster-down: ## take it down
	hack/as-root.sh go -C test/cluster run ./cmd/cluster down

.PHONY: packages packages-demo packages-vm
packages: ## install the Debian or Ubuntu packages that the proof needs
	hack/install-packages.sh proof
packages-demo packages-vm: packages-%:
	hack/install-packages.sh $*

.PHONY: clean
clean: ## remove what was built (not the cache outside the checkout)
	rm -rf bin dist
