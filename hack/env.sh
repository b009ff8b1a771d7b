# shellcheck shell=sh
# One way to compile, for programs, tests, lint and demo, as for Kubernetes (test/cluster/internal/artifacts): what they
# share is compiled once, and by all checkouts of a machine. To be sourced:
#
#   . hack/env.sh && go test ./pkg/rdma
#
# -trimpath leaves the checkout's path out. What only debuggers read is half of a link. A program with the commit in it
# would be linked again for each.
flags=$(go env GOFLAGS)
case " $flags " in
*" -gcflags=all=-dwarf=false "*) GOFLAGS=$flags ;;
*) GOFLAGS="-trimpath -gcflags=all=-dwarf=false -buildvcs=false${flags:+ $flags}" ;;
esac
export GOFLAGS CGO_ENABLED=0
unset flags
