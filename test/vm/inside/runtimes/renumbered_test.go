package runtimes

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// The kernel gives the numbers of nodes anew, and a spec has those of before: with either runtime the container does
// not start, and leaves nothing behind. runc says why, crun has the hook's exit status alone. Once the numbers are
// right again the container starts.
func TestRenumbered(t *testing.T) {
	node := uverbs(t, "rxe0")
	spec := `{"cdiVersion": "0.3.0", "kind": "rdma.dev/owned", "devices": [` + owned("rxe0", node) + `]}`
	must.NoError(t, os.WriteFile(specDir+"/owned.json", []byte(spec), 0o644))
	t.Cleanup(func() { os.Remove(specDir + "/owned.json") })
	run := func(runtime string) inside.Result {
		argv := podmanRun(runtime, "--rm", "--network", "none", "--device", "rdma.dev/owned=rxe0")
		return inside.Run(slices.Concat(argv, []string{toolsImage, "ibv_devinfo", "-d", "rxe0"})...)
	}
	loadedAnew(t, "rxe1", "rxe0")
	t.Cleanup(func() { loadedAnew(t, "rxe0", "rxe1") })
	for runtime, says := range map[string]string{
		"runc": "the container got node " + node + " as that of RDMA device rxe0, but it is that of rxe1 now",
		"crun": "rdma-hook` (exit code: 6)",
	} {
		r := run(runtime)
		test.NotEq(t, 0, r.Code,
			test.Sprintf("%s started a container with the node of rxe1 for that of rxe0", runtime))
		inside.Wants(t, runtime, r.Out, says)
	}
	test.Eq(t, "", inside.Must(t, "podman", "ps", "--all", "--quiet"), test.Sprint("containers are left"))
	loadedAnew(t, "rxe0", "rxe1")
	for _, runtime := range inside.Runtimes {
		if r := run(runtime); r.Code != 0 {
			t.Errorf("%s: status %d, %s", runtime, r.Code, r.Out)
		}
	}
}

// owned is a device of a CDI spec. It has one node, and the hook checks which RDMA device this node belongs to. The
// other node is of an HCA that is gone, and that the container is not given: it keeps nobody from starting.
func owned(ibdev, node string) string {
	return fmt.Sprintf(`{"name": %q, "containerEdits": {
		"deviceNodes": [{"path": %q, "permissions": "rw"}],
		"hooks": [{"hookName": "createRuntime", "path": %q, "args": ["rdma-hook", "--node", %q, "--node", "gone0:uverbs99"],
			"timeout": 10}]}}`,
		ibdev, "/dev/infiniband/"+node, hookPath, ibdev+":"+node)
}

// loadedAnew makes the RDMA devices again, in an order that gives them their numbers.
func loadedAnew(t *testing.T, ibdevs ...string) {
	t.Helper()
	netdevs := map[string]string{"rxe0": "eth0", "rxe1": "dummy0"}
	for _, ibdev := range ibdevs {
		inside.Must(t, "rdma", "link", "delete", ibdev)
	}
	for _, ibdev := range ibdevs {
		inside.Must(t, "rdma", "link", "add", ibdev, "type", "rxe", "netdev", netdevs[ibdev])
	}
}
