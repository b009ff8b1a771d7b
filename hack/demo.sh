#!/bin/bash
# make demo: the main job on an embedded cluster with a bundled host.
set -euo pipefail
cd "$(dirname "$0")/.."
make image IMAGE=localhost/dra-driver-rdma:testbed
# The flags of the Makefile: what the cluster's programs share with this one is compiled once.
CGO_ENABLED=0 GOGC=400 GOMEMLIMIT=2GiB go -C test/cluster build -trimpath -gcflags=all=-dwarf=false -o ../../bin/demo ./cmd/demo
exec bin/demo "$@"
