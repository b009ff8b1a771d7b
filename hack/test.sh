#!/bin/bash
# Everything that proves the project, in one run; `make test` calls it. It prints
# the time of each stage, and ends at the first that fails.
#
#   TEST_LONG=1   larger seeds and counts, and ten seconds of fuzzing per target
set -euo pipefail
cd "$(dirname "$0")/.."
long=${TEST_LONG:-}
times=()

stage() { # stage NAME COMMAND...
	local name=$1 start=$SECONDS
	shift
	printf '\n=== %s\n' "$name" >&2
	if ! "$@"; then
		printf '\n=== FAILED: %s (after %d s)\n' "$name" $((SECONDS - start)) >&2
		exit 1
	fi
	times+=("$(printf '%5d s  %s' $((SECONDS - start)) "$name")")
}

unit() { go test -race -timeout 20m ${long:+-count=3} ./...; }

fuzz() {
	local package target
	for package in $(go list ./...); do
		for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
			go test -run '^$' -fuzz "^$target\$" -fuzztime 10s "$package"
		done
	done
}

e2e() { go -C test/cluster test -timeout 30m ${long:+-count=3} ./...; }

stage lint hack/lint.sh
stage "unit, golden, fuzz seeds, import rules, chart (race detector on)" unit
[ -z "$long" ] || stage fuzz fuzz
stage "programs of the cluster (cached by version)" go -C test/cluster run ./cmd/cluster build
stage "end to end on the embedded cluster" e2e

printf '\n=== all stages passed\n' >&2
printf '%s\n' "${times[@]}" >&2
