#!/bin/bash
# Everything that proves the project, in one run; `make test` calls it. It prints
# the time of each stage, the slowest tests and the skipped ones, and ends at the first stage that fails.
#
#   TEST_LONG=1   larger seeds and counts, more variants, ten seconds of fuzzing per target, and a spoiled environment
set -euo pipefail
cd "$(dirname "$0")/.."
long=${TEST_LONG:-}
times=()
timings=$(mktemp -d)
trap 'rm -rf "$timings"' EXIT
gotestsum="$(pwd)/bin/gotestsum"
export KUBECACHEDIR=$timings/kubectl # what kubectl keeps is in the user's home directory otherwise

# One way to compile, for tests, programs that tests build, and the Makefile: each way compiles everything once more. With
# -trimpath what one checkout has compiled serves the next. What only debuggers read is half of a link. A program with the
# commit in it is linked anew for each.
GOFLAGS="-trimpath -gcflags=all=-dwarf=false -buildvcs=false $(go env GOFLAGS)"
export GOFLAGS CGO_ENABLED=0

# gotest MODULE ARG...: go test in a module's directory, with time and output of each test kept for the end. Lint has vetted
# what is here.
gotest() {
	local module=$1
	shift
	(cd "$module" && "$gotestsum" --format standard-quiet --hide-summary=skipped --jsonfile "$(mktemp "$timings/XXXXXX.json")" "${again[@]}" -- -ldflags=-s -vet=off "$@")
}
again=()

# on_real_parts MODULE ARG...: gotest of all packages of a module whose tests run clusters and virtual machines. A few
# tests that fail are run once more, on new ones, and named at the end: each of them is a fault to mend.
on_real_parts() {
	local again=(--packages ./... --rerun-fails=1 --rerun-fails-max-failures=4 "--rerun-fails-report=$(mktemp "$timings/XXXXXX.again")")
	gotest "$@"
}

failed_once() {
	printf '\n=== the tests that failed once, and passed when they were run again\n'
	cat "$timings"/*.again
}

slowest() {
	printf '\n=== the ten slowest tests\n'
	cat "$timings"/*.json | "$gotestsum" tool slowest --threshold 1s | awk '$2 !~ "/" && n++ < 10' # no subtests
}

skipped() {
	printf '\n=== the skipped tests, and why\n'
	"$gotestsum" --format none --hide-summary=failed,errors --raw-command -- cat "$timings"/*.json
}

# busy prints the seconds that the machine's processors have worked, for whomever.
busy() { awk -v hz="$(getconf CLK_TCK)" '$1 == "cpu" { print int(($2 + $3 + $4 + $7 + $8) / hz) }' /proc/stat; }

stage() { # stage NAME COMMAND...
	local name=$1 start=$SECONDS worked
	worked=$(busy)
	shift
	printf '\n=== %s\n' "$name" >&2
	if ! "$@"; then
		printf '\n=== FAILED: %s (after %d s)\n' "$name" $((SECONDS - start)) >&2
		exit 1
	fi
	times+=("$(printf '%5d s, %5d s of processor time  %s' $((SECONDS - start)) $(($(busy) - worked)) "$name")")
}

began=$(busy)

# Go's cache does not know the files that a test's child processes read, the chart
# and the image among them, so nothing is taken from it.
count=1
[ -z "$long" ] || count=3

# The race detector makes a program many times as slow, so it is for what has goroutines: the
# driver with all that it is made of but its pure functions (internal/test/importrules), and what is below. `make test-long`
# has it everywhere. A program with it sleeps for a second before it ends, and so would each package. Many tests wait, so
# more than two run side by side.
goroutines=(./cmd/dra-driver ./pkg/dra/... ./internal/{hook,inspect,kernel,kube}/...)
pure='/pkg/dra/(health|plan|podmeta|policy|resources)$'
unit() {
	local raced others
	raced=$(go list "${goroutines[@]}" | grep -vE "$pure") && others=$(go list ./... | grep -vxF "$raced") || return 1
	[ -z "$long" ] || raced+=$'\n'$others
	# shellcheck disable=SC2086 # words
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=100 gotest . -race -p 3 -parallel 4 -timeout 20m -count=$count $raced || return 1
	# shellcheck disable=SC2086
	[ -n "$long" ] || gotest . -p 3 -timeout 20m -count=1 $others
}

# What the machine has must not matter. The race detector has been there.
spoiled() { hack/spoiled.sh "$gotestsum" --format standard-quiet --hide-summary=skipped -- -ldflags=-s -vet=off -timeout 20m -count=1 ./...; }

fuzz() {
	local package packages target targets
	packages=$(go list ./...) || return 1
	for package in $packages; do
		targets=$(go test -list '^Fuzz' "$package") || return 1
		for target in $(grep '^Fuzz' <<<"$targets"); do
			go test -run '^$' -fuzz "^$target\$" -fuzztime 10s "$package" || return 1
		done
	done
}

# The unit tests of hook and chart use the cluster's runc and helm. The virtual machine's image is made here, since
# debootstrap mounts on the host, which a test of the cluster takes for its own doing.
programs() {
	path=$(go -C test/cluster run ./cmd/cluster build) && PATH=$path:$PATH &&
		go -C test/cluster run ./cmd/cluster build --kubernetes 1.34 >/dev/null &&
		go -C test/vm run ./cmd/vm build >/dev/null
}

# More requests to the API server, or calls on files, than were committed.
counts() { gotest test/bench -timeout 10m -count=$count ./...; }

image() { make image IMAGE=localhost/dra-driver-rdma:testbed; }

# Clusters run side by side: each waits for back-offs half of the time.
e2e() { on_real_parts test/cluster -p 2 -timeout 45m -count=$count; }

# The tests in the virtual machine: those where it is the node of a control plane on this
# machine, or two of them are its nodes, and use both processors; and the others.
nodes='^(TestCluster|TestFollow|TestTwoNodes|TestMPI|TestAcceptance)$'
vm() { on_real_parts test/vm -p 1 -timeout "$([ -n "$long" ] && echo 3h || echo 1h)" -count=1 "$@"; }

# aside runs a command beside the stages that follow, until `stage NAME joined`. A virtual machine has one emulated
# processor. Two of them at once would slow each other and the clusters down, and an emulated processor works for each tick
# of the clock, however little it gets done.
aside() {
	aside_log=$(mktemp)
	set -m # a process group, to end it with all that it started
	"$@" >"$aside_log" 2>&1 &
	set +m
	aside_pid=$!
	trap 'kill -- -$aside_pid 2>/dev/null; rm -rf "$aside_log" "$timings"' EXIT
}

joined() {
	local status=0
	wait $aside_pid || status=$?
	trap 'rm -rf "$timings"' EXIT
	cat "$aside_log"
	rm "$aside_log"
	return $status
}

go -C tools/lint build -o "$gotestsum" gotest.tools/gotestsum
stage lint hack/lint.sh
stage "programs of the cluster, image of the virtual machine (cached by version)" programs
stage "unit, golden, fuzz seeds, import rules, chart" unit
[ -z "$long" ] || stage "the unit tests in a spoiled environment" spoiled
[ -z "$long" ] || stage fuzz fuzz
stage "packages: deb, rpm, tar.gz" gotest packaging -timeout 25m -count=$count ./...
stage "what the driver asks of API server and files" counts
stage "container image" image
aside vm -parallel 1 -skip "$nodes"
stage "end to end on the embedded cluster" e2e
stage "the demo" hack/demo.sh
stage "a real RDMA kernel, in a virtual machine (begun beside the two before)" joined
stage "the same as node of a cluster" vm -run "$nodes"

printf '\n=== all stages passed\n' >&2
printf '%s\n' "${times[@]}" >&2
printf '%5d s, %5d s of processor time  in all\n' $SECONDS $(($(busy) - began)) >&2
slowest >&2
failed_once >&2
skipped >&2
