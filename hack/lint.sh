#!/bin/sh
# gofmt, go vet, go mod tidy -diff and staticcheck over the modules with code of ours; shellcheck over shell scripts,
# actionlint over the forge's workflows; words that comments do without.
set -eu
cd "$(dirname "$0")/.."
. hack/env.sh

staticcheck="$(pwd)/bin/staticcheck"
go -C tools/lint build -o "$staticcheck" honnef.co/go/tools/cmd/staticcheck

actionlint="$(pwd)/bin/actionlint"
go -C tools/lint build -o "$actionlint" github.com/rhysd/actionlint/cmd/actionlint

unformatted=$(git ls-files -coz --exclude-standard '*.go' | xargs -0 gofmt -l --)
if [ -n "$unformatted" ]; then
	echo "lint: not gofmt-ed:" >&2
	echo "$unformatted" >&2
	exit 1
fi
# These make sentences that a reader has to decode: say who does what (docs/adr/0031).
if git grep -nE '^[^"`]*//.*\b(of which|by which|as what|made anew|who wants)\b' -- '*.go'; then
	echo "lint: comments with the words above: write two plain sentences" >&2
	exit 1
fi
for module in . test/cluster test/vm test/bench packaging; do
	(
		cd "$module"
		go mod tidy -diff
		go vet ./...
		"$staticcheck" ./...
	)
done
# kubectl-rdma is for macOS too. What it links of ours must compile there.
GOOS=darwin go build ./pkg/api/v1alpha1 ./pkg/topology
shellcheck --severity=warning hack/*.sh .ci/run packaging/*.sh packaging/*/*.sh deployments/leaf-switches/rdma-links \
	deployments/leaf-switches/rdma-fabric-links
"$actionlint" -shellcheck shellcheck -pyflakes= .github/workflows/*.yml
