package runtimes

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// containerd is that of the embedded cluster, with its shim, ctr and runc.
var containerd = engine{
	paths:  []string{"CLUSTER_PATH"},
	daemon: []string{"containerd"},
	stop: func(p *os.Process) error {
		// dockerd would take the socket for a containerd that runs.
		return errors.Join(p.Kill(), os.Remove("/run/containerd/containerd.sock"))
	},
	answer: []string{"ctr", "version"},
	load:   []string{"ctr", "images", "import", "--local"},
	kill:   func(name string) []string { return []string{"ctr", "tasks", "kill", "--signal", "KILL", name} },
	run: func(name string, options ...string) []string {
		return slices.Concat([]string{"ctr", "run", "--rm", "--net-host", "--user", "1000"}, options,
			[]string{toolsImage, name, "sh", "-c"})
	},
}

// ctr run --device of containerd 2.x reads the same spec.
func TestContainerd(t *testing.T) {
	containerd.start(t)
	t.Log(inside.Must(t, "containerd", "--version"))
	containerd.serves(t)
}
