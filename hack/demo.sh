#!/bin/bash
# make demo: the main job on an embedded cluster with a bundled host.
set -euo pipefail
cd "$(dirname "$0")/.."
make image IMAGE=localhost/dra-driver-rdma:testbed
go -C test/cluster build -o ../../bin/demo ./cmd/demo
exec bin/demo "$@"
