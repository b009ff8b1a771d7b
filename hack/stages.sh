# shellcheck shell=bash
# What hack/test.sh and hack/proof.sh share: stages, their times, and the records of their tests. To be sourced in the
# checkout's root.
. hack/env.sh
export GOGC=400 GOMEMLIMIT=2GiB # memory of compiler, linker and tests, for a fourth of a build's processor time
records=$PWD/bin/records # of the tests of each stage; hack/proof.sh reads those of hack/test.sh
gotestsum=$PWD/bin/gotestsum
testlog=$PWD/bin/testlog
times=()
KUBECACHEDIR=$(mktemp -d) # what kubectl keeps is in the user's home directory otherwise
export KUBECACHEDIR
trap 'rm -rf "$KUBECACHEDIR"' EXIT

# busy prints the seconds that the machine's processors have worked, for whomever.
busy() { awk -v hz="$(getconf CLK_TCK)" '$1 == "cpu" { print int(($2 + $3 + $4 + $7 + $8) / hz) }' /proc/stat; }
began=$(busy)

# state names what is in the checkout, with changes that are not committed.
state() { { git rev-parse HEAD && git diff HEAD && git ls-files -oz --exclude-standard | xargs -0 --no-run-if-empty sha256sum; } | sha256sum; }

# gotest RECORD MODULE ARG...: go test in a module's directory; what each test says, and when, is kept. Lint vets. Go's
# cache does not know the files that a test's child processes read, so nothing is taken from it.
gotest() {
	local record=$records/$1.json module=$2
	shift 2
	(cd "$module" && "$gotestsum" --format pkgname --format-hide-empty-pkg --hide-summary=skipped --jsonfile "$record" "${again[@]}" \
		-- -ldflags=-s -vet=off "$@")
}
again=()

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

# summary COMMAND RECORD...: times of the stages, the slowest tests, what was skipped and why, and the counts.
summary() {
	local command=$1
	shift
	times+=("$(printf '%5d s, %5d s of processor time  in all' $SECONDS $(($(busy) - began)))")
	printf '\n=== all stages of make %s passed\n' "$command"
	printf '%s\n' "${times[@]}" | tee "$records/$command.stages"
	"$testlog" summary "$command" "$@"
}

# tools builds what reads the tests' output.
tools() { go -C tools/lint build -o "$gotestsum" gotest.tools/gotestsum && go build -o "$testlog" ./tools/testlog; }

# programs builds the cluster's programs, which tests of hook, chart and networks use, too.
programs() {
	local path
	path=$(go -C test/cluster run ./cmd/cluster build) && PATH=$path:$PATH
}

image() { make --no-print-directory testbed-image; }
