#!/bin/sh
# Runs a command as root, with the caller's Go and settings.
#
#   hack/as-root.sh COMMAND [ARG...]
set -eu
if [ "$(id -u)" -eq 0 ]; then
	exec "$@"
fi
echo "as-root: $* needs root (namespaces, mounts, device nodes): asking sudo" >&2
# Root keeps caches of its own: files of root's in the caller's would be in the way
# later. The checkout is the caller's, which git asks to be told.
exec sudo --set-home --preserve-env=GOPROXY,GOSUMDB,GONOSUMDB,GOPRIVATE,GOFLAGS,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,http_proxy,https_proxy,no_proxy,DRA_RDMA_CACHE,CI,TEST_LONG env "PATH=$PATH" \
	"GOFLAGS=${GOFLAGS:-}" "CGO_ENABLED=${CGO_ENABLED:-0}" \
	GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory "GIT_CONFIG_VALUE_0=*" "$@"
