#!/bin/bash
# What a newcomer and a contributor run; `make test` calls it. It proves each promise of the README once, and all that
# needs neither a second cluster, nor a virtual machine, nor the race detector. hack/proof.sh has the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
cat >&2 <<'TEXT'
make test: unit tests of all packages, golden files, chart, documents and import rules; then one Kubernetes cluster with
the promises of the README on it. On two cores it takes 5 to 10 minutes after `make demo`, and 13 to 28 on a new
machine, which compiles Kubernetes first.
TEXT
. hack/stages.sh
rm -rf "$records" bin/tested
mkdir -p "$records"

# compile tells how far it is: on a new machine it would be silent for minutes.
compile() {
	local module
	for module in . test/cluster; do
		(cd "$module" && go list -f '{{join .TestImports "\n"}}{{"\n"}}{{join .XTestImports "\n"}}{{if and .GoFiles (ne .Name "main")}}{{"\n"}}{{.ImportPath}}{{end}}' ./... |
			sort -u | sed '/^$/d; /^C$/d; /^unsafe$/d' | xargs go build -v 2>&1 |
			awk '/^[a-z0-9][A-Za-z0-9.\/_-]*$/ { if (++n % 200 == 0) print "compiled " n " packages"; next } { print }') || return 1
	done
}

unit() { gotest unit . -short -p 3 -timeout 15m -count=1 ./...; }

promises() { gotest promises test/cluster -timeout 15m -count=1 ./e2e/promises; }

stage "packages of the distribution" hack/install-packages.sh test
tested=$(state) # of the files at the start: for later ones `make proof` runs this again
stage "tools" tools
stage "programs of the cluster (cached by version)" programs
stage "compile the tests" compile
stage "unit, golden files, fuzz seeds, import rules, chart, documents" unit
stage "container image" image
stage "the promises of the README, on one cluster" promises
echo "$tested" >bin/tested
summary test "$records"/{unit,promises}.json >&2
