#!/bin/bash
# make demo: the main job on an embedded cluster with a bundled host.
set -euo pipefail
cd "$(dirname "$0")/.."
go run ./tools/image --tag localhost/dra-driver-rdma:testbed --output bin/image.tar --binary bin/dra-driver --binary bin/rdma-hook
go -C test/cluster build -o ../../bin/demo ./cmd/demo
exec bin/demo "$@"
