package product

import (
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// openNodes is a script that opens for reading and writing what the container has, and
// a node by its name that it may not have.
const openNodes = `
echo "user $(id -u) nodes $(ls /dev/infiniband | tr '\n' ' ')"
for node in /dev/infiniband/*; do (exec 3<>$node) && echo "opened $node"; done
`

// managementNodes asks for the devices of a spec that has umad: each container gets what
// it names.
func managementNodes(t *testing.T) {
	install(t)
	inside.Must(t, "cdi-gen", "generate", "--nodes", "verbs,cm,mad", "--to", specDir)
	t.Cleanup(func() { inside.Must(t, "cdi-gen", "generate", "--to", specDir) })
	umad, uverbs0 := inside.Node(t, "infiniband_mad", "rxe0"), inside.Node(t, "infiniband_verbs", "rxe0")
	info, err := os.Stat("/dev/infiniband/" + umad)
	must.NoError(t, err)
	test.Eq(t, 0o600, info.Mode().Perm(), test.Sprintf("on the host %s has mode", umad))
	for _, c := range []struct {
		name    string
		options []string
		nodes   []string
	}{
		{"a fabric tool, crun", []string{"--runtime", "crun", "--device", "rdma.dev/hca=rxe0-mad"}, []string{umad}},
		{"a tool that is both", []string{"--device", "rdma.dev/hca=rxe0", "--device", "rdma.dev/hca=rxe0-mad"}, []string{"rdma_cm", umad, uverbs0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := contain(toolsImage, openNodes, c.options...)
			test.Eq(t, 0, r.Code, test.Sprint("status"))
			inside.Wants(t, "container", r.Out, "user 1000 nodes "+strings.Join(c.nodes, " ")+" \n")
			for _, node := range c.nodes {
				inside.Wants(t, "container", r.Out, "opened /dev/infiniband/"+node+"\n")
			}
		})
	}
	t.Run("an application that makes the node", func(t *testing.T) {
		number, err := os.ReadFile("/sys/class/infiniband_mad/" + umad + "/dev")
		must.NoError(t, err)
		script := "mknod /tmp/umad c " + strings.Replace(strings.TrimSpace(string(number)), ":", " ", 1) + " && (exec 3<>/tmp/umad) && echo OPENED"
		r := contain(toolsImage, script, "--user", "0", "--cap-add", "MKNOD", "--device", "rdma.dev/hca=rxe0")
		if r.Code == 0 || strings.Contains(r.Out, "OPENED") || !strings.Contains(r.Out, "Operation not permitted") {
			t.Errorf("status %d\n%s", r.Code, r.Out)
		}
	})
}
