package testbed

import (
	"encoding/json"
	"testing"

	"github.com/shoenig/test/must"
)

// Plugin is kubectl rdma, on a bed.
type Plugin struct {
	bed *Bed
	// Path of the program.
	Path string
}

// Plugin is kubectl rdma as `make build` left it, like the image.
func (b *Bed) Plugin() Plugin { return Plugin{b, b.Checkout.Program("kubectl-rdma")} }

// Run returns what a command says in a namespace.
func (p Plugin) Run(t *testing.T, namespace string, args ...string) string {
	t.Helper()
	return p.bed.Inside(t, p.Path, append(args, "--namespace="+namespace)...)
}

// Why returns what kubectl rdma why says of a pod.
func (p Plugin) Why(t *testing.T, namespace, pod string) (answer struct{ Verdict, Summary string }) {
	t.Helper()
	must.NoError(t, json.Unmarshal([]byte(p.Run(t, namespace, "why", pod, "-o", "json")), &answer))
	return answer
}
