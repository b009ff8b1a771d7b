#!/bin/bash
# make demo: the main job on an embedded cluster with a bundled host.
set -euo pipefail
cd "$(dirname "$0")/.."
echo 'make demo: on two cores of a new machine it compiles the driver for 2 minutes, and a cluster for 6 to 12.' >&2
hack/install-packages.sh demo
. hack/env.sh
make --no-print-directory image IMAGE=localhost/dra-driver-rdma:testbed
go -C test/cluster build -o ../../bin/demo ./cmd/demo
PATH=$PWD/bin:$PATH exec bin/demo "$@" # kubectl finds kubectl-rdma there
