#!/bin/bash
# Everything that proves the project; `make proof` calls it. What hack/test.sh has proven of the same files is not run
# again. It ends at the first stage that fails.
#
#   TEST_LONG=1   larger seeds and counts, more variants, ten seconds of fuzzing per target, and a spoiled environment
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/stages.sh
hack/install-packages.sh proof
[ "$(cat bin/tested 2>/dev/null)" = "$(state)" ] || hack/test.sh
long=${TEST_LONG:-}
count=1
[ -z "$long" ] || count=3

find "$records" -type f ! -name unit.json ! -name promises.json ! -name test.stages -delete # of an earlier proof
tools
"$testlog" sample bin/records/samples & sampler=$!
trap 'kill $sampler; rm -rf "$KUBECACHEDIR"' EXIT

# on_real_parts RECORD MODULE PACKAGES ARG...: gotest of packages whose tests run clusters and virtual machines. A few tests
# that fail are run once more, on new ones. Each of them is a fault to mend: the last line says so, and the proof has failed.
on_real_parts() {
	local record=$1 module=$2 again=(--packages "$3" --rerun-fails=1 --rerun-fails-max-failures=4)
	shift 3
	gotest "$record" "$module" "$@"
}

# The race detector makes a program many times as slow, so it is for the packages that have goroutines, locks or atomics.
# `make test-long` has it everywhere. A program with it sleeps for a second before it ends, and so would each package. Many
# tests wait, so more than two run side by side.
goroutines() {
	git grep -lE '^\s*go (func|[a-zA-Z_.]+\()|errgroup\.|\bsync\.|\batomic\.|\.Go\(' -- cmd pkg internal ':!*_test.go' ':!internal/test' |
		xargs -n 1 dirname | sort -u | sed 's|^|./|'
}
races() {
	# Tables of cases, counts of calls and bounds of memory are not for it: `make test` has run them.
	local packages=./... short=()
	if [ -z "$long" ]; then
		packages=$(goroutines) || return 1
		short=(-short -skip '^(TestFindings|TestHealthIsBounded|TestLooks|TestScripts|TestSessions|TestWhy|TestUpdate.*|Fuzz.*|TestMemoryLimit|TestCost|'\
'TestCostOfEight|TestListCost|TestEventCost(OfDriver)?|TestReadStateIsBounded|TestReadsOfAPoll|TestLargeList|'\
'TestScaling|TestLoadOf(AllLinks|OnePod|Sweep)|TestOracle|TestDiscoverWithoutUevents|TestCheckNodes)$')
	fi
	# shellcheck disable=SC2086 # words
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=100 gotest races . -race "${short[@]}" -p 3 -parallel 4 -timeout 20m -count=$count $packages
}

# rest runs the tests that hack/test.sh left out.
rest() {
	[ -z "$long" ] || return 0
	export -f gotest
	export records gotestsum
	# Two packages at a time: most wait for programs that they start. xargs fills in PACKAGE TESTS.
	# shellcheck disable=SC2016 # the inner shell expands it
	"$testlog" rest "$records/unit.json" |
		xargs --no-run-if-empty -P 2 -L 1 bash -c 'gotest "rest-$(basename "$0")" . -timeout 20m -count=1 -run "$1" "$0"'
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

# The virtual machine's image is made before the clusters run: debootstrap mounts on the host, which a test of the cluster
# takes for its own doing.
more_programs() {
	programs && go -C test/cluster run ./cmd/cluster build --kubernetes 1.34 >/dev/null && go -C test/vm run ./cmd/vm build >/dev/null
}

# More requests to the API server, or calls on files, than were committed.
counts() { gotest counts test/bench -timeout 10m -count=$count ./...; }

packages() { gotest packages packaging -timeout 25m -count=$count ./...; }

# Clusters run side by side: each waits for back-offs half of the time.
clusters() {
	local packages
	packages=$(cd test/cluster && go list ./... | grep -vE '/e2e/(promises|queues)$') || return 1
	on_real_parts clusters test/cluster "$packages" -p 2 -timeout 45m -count=$count
}

# The releases of Kubernetes between the oldest and the newest, by their own programs, which the tests build.
releases() {
	local release
	for release in 1.35 1.36; do
		KUBERNETES=$release on_real_parts "kubernetes-$release" test/cluster ./e2e/releases -timeout 1h -count=1 || return 1
	done
}

# The tests in the virtual machine. A node's guest has two emulated processors, beside a control plane: it comes last of
# what runs beside the other stages, by then mostly clusters. Two such guests come after all stages.
one_node='TestCluster|TestFollow' two_nodes='TestTwoNodes|TestMPI|TestAcceptance'
vm() {
	local record=$1
	shift
	on_real_parts "$record" test/vm ./... -p 1 -timeout "$([ -n "$long" ] && echo 3h || echo 1h)" -count=1 "$@"
}

guests() { vm vm -parallel 1 -skip "^($one_node|$two_nodes)\$" && vm one-node -run "^($one_node)\$"; }

# aside runs a command beside the stages that follow, until `stage NAME joined`. Two virtual machines at once would slow
# each other and the other stages down, and an emulated processor works for each tick of the clock, however little it
# gets done.
aside() {
	aside_log=$(mktemp)
	set -m # a process group, to end it with all that it started
	"$@" >"$aside_log" 2>&1 &
	set +m
	aside_pid=$!
	trap 'kill -- -$aside_pid 2>/dev/null || :; kill $sampler; rm -rf "$aside_log" "$KUBECACHEDIR"' EXIT
}

joined() {
	local status=0
	wait $aside_pid || status=$?
	trap 'kill $sampler; rm -rf "$KUBECACHEDIR"' EXIT
	cat "$aside_log"
	rm "$aside_log"
	return $status
}

stage lint hack/lint.sh
stage "Kubernetes 1.34, image of the virtual machine (cached by version)" more_programs
stage "container image" image
aside guests
stage "race detector" races
stage "the unit tests that make test leaves out" rest
[ -z "$long" ] || stage "the unit tests in a spoiled environment" spoiled
[ -z "$long" ] || stage fuzz fuzz
stage "packages: deb, rpm, tar.gz" packages
stage "what the driver asks of API server and files" counts
stage "clusters" clusters
[ -z "$long" ] || stage "Kubernetes 1.35 and 1.36" releases
stage "the demo" hack/demo.sh
stage "a real RDMA kernel, in a virtual machine (begun before the race detector)" joined
stage "two virtual machines as nodes of a cluster" vm two-nodes -run "^($two_nodes)\$"
summary proof "$records"/*.json >&2
