#!/bin/bash
# make demo: the main job on an embedded cluster with a bundled host.
set -euo pipefail
cd "$(dirname "$0")/.."
echo 'make demo: on two cores, a new machine first compiles the driver and a Kubernetes cluster: 7 to 15 minutes.' >&2
hack/install-packages.sh demo
. hack/env.sh
make --no-print-directory testbed-image
GOGC=400 GOMEMLIMIT=2GiB go -C test/cluster build -o ../../bin/demo ./cmd/demo
PATH=$PWD/bin:$PATH exec bin/demo "$@" # kubectl finds kubectl-rdma there
