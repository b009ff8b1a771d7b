package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// TestArgsOfNspawn: a container of systemd-nspawn opens the nodes, and has no other HCA.
func TestArgsOfNspawn(t *testing.T) {
	needs.Root(t, "containers")
	needs.Program(t, "systemd-nspawn", "apt-get install systemd-container")
	busybox := needs.Program(t, "busybox", "apt-get install busybox-static")
	flags := strings.TrimSpace(cdigen(t, "args", "--for", "systemd-nspawn", "--host-root", host(t, "roce-lag"),
		"mlx5_bond_0").stdout)
	rootfs := t.TempDir()
	for _, dir := range []string{"usr", "etc", "dev", "proc", "sys", "tmp", "run", "root", "var"} {
		must.NoError(t, os.Mkdir(filepath.Join(rootfs, dir), 0o755))
	}
	put(t, filepath.Join(rootfs, "bin/busybox"), read(t, busybox), 0o755)
	// The nodes are those of /dev/kmsg, in a /dev of their own. There is no systemd to register with.
	const script = `set -e
mkdir -p "$1/d" && mount -t tmpfs d "$1/d" && cd "$1/d"
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty .
mkdir pts shm infiniband
for node in uverbs0 uverbs1 rdma_cm; do mknod -m 666 infiniband/$node c 1 11; done
cd / && mount --move "$1/d" /dev && mount -t devpts devpts /dev/pts && ln -s pts/ptmx /dev/ptmx
mount -t tmpfs run /run
root=$2; shift 2
systemd-nspawn --quiet --register=no --keep-unit -D "$root" "$@" /bin/busybox sh -c \
	'echo /dev/infiniband/*; for node in /dev/infiniband/*; do echo -n > $node && echo opened; done'`
	const want = "/dev/infiniband/rdma_cm /dev/infiniband/uverbs0\nopened\nopened\n"
	for _, more := range [][]string{nil, {"--private-users=65536:65536", "--private-users-ownership=off"}} {
		argv := slices.Concat([]string{"--mount", "sh", "-c", script, "sh", t.TempDir(), rootfs}, strings.Fields(flags), more)
		out, err := exec.Command("unshare", argv...).Output()
		if exit, ok := err.(*exec.ExitError); ok {
			t.Fatalf("%s: %v: %s%s", more, err, out, exit.Stderr)
		}
		if got := strings.ReplaceAll(string(out), "\r", ""); err != nil || got != want {
			t.Errorf("%s: the container says %q, %v", more, got, err)
		}
	}
}
