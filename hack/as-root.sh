#!/bin/sh
# Runs a command as root, with the caller's environment and Go.
#
#   hack/as-root.sh COMMAND [ARG...]
set -eu
if [ "$(id -u)" -eq 0 ]; then
	exec "$@"
fi
echo "as-root: $* needs root (namespaces, mounts, device nodes): asking sudo" >&2
exec sudo --preserve-env=HOME,GOPATH,GOCACHE,GOMODCACHE,GOPROXY,GOFLAGS,DRA_RDMA_CACHE,CI,TEST_LONG env "PATH=$PATH" "$@"
