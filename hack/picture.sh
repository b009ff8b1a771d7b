#!/bin/bash
# make picture: docs/fabric.png, of the page of a modelled cluster that TestReport of internal/inspect keeps.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$profile" \
	--blink-settings=preferredColorScheme=1 --window-size=1280,860 --screenshot=docs/fabric.png \
	"file://$PWD/internal/inspect/testdata/report.html"
