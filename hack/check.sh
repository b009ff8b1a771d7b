#!/bin/bash
# What a contributor runs before each commit; `make check` calls it. It leaves out what is slow: races, the
# virtual machine, most of the cluster's tests. Go takes results of unchanged packages from its cache.
set -euo pipefail
cd "$(dirname "$0")/.."

stage() { # stage NAME COMMAND...
	local name=$1 start=$SECONDS
	shift
	printf '\n=== %s\n' "$name" >&2
	"$@" || { printf '\n=== FAILED: %s (after %d s)\n' "$name" $((SECONDS - start)) >&2; exit 1; }
	printf '=== %s: %d s\n' "$name" $((SECONDS - start)) >&2
}

image() { make --no-print-directory image IMAGE=localhost/dra-driver-rdma:testbed; }
# One pod with two containers and one HCA, what its cgroup lets it open, and its settings.
smoke() { go -C test/cluster test -vet=off -count=1 -run '^(TestTemplate|TestDeviceCgroup|TestSettings)$' ./e2e; }

stage lint hack/lint.sh
stage "unit tests without the slow ones" go test -short -vet=off ./...
stage "container image" image
stage "smoke test on a cluster" smoke
