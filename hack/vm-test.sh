#!/bin/bash
# make vm-test: the tests that need a real RDMA kernel, in a virtual machine. Kernel
# and root file system are built once, and kept in the cache.
set -euo pipefail
cd "$(dirname "$0")/.."
make image IMAGE=localhost/dra-driver-rdma:testbed
exec go -C test/vm test -count=1 -p 1 -timeout 40m "$@" ./...
