#!/bin/bash
# Runs a command where others have set up the machine: forwarding is on, as with Docker or a kubelet, new files are
# for their owner alone, the time zone has quarters of an hour, the language has an i without a dot, few files may be
# open, and the user has settings for Go, kubectl and helm.
#
#   hack/spoiled.sh go test ./...
set -euo pipefail
forward=/proc/sys/net/ipv4/ip_forward
before=$(cat $forward)
# Each new network namespace has the value of the host's. So a namespace of our own would spoil nothing.
trap 'echo "$before" >$forward' EXIT
echo 1 >$forward
umask 077
ulimit -S -n 256
export TZ=Asia/Kathmandu LANG=tr_TR.UTF-8 LC_ALL=tr_TR.UTF-8
export GOFLAGS="${GOFLAGS:-} -buildvcs=auto" KUBECONFIG=/dev/null/kubeconfig KUBECACHEDIR=/dev/null/cache
export HELM_NAMESPACE=theirs HELM_DEBUG=true NO_COLOR=1
"$@"
