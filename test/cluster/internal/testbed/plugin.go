package testbed

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// Plugin is kubectl rdma, on a bed.
type Plugin struct {
	bed *Bed
	// Path of the program.
	Path string
}

// Plugin builds kubectl rdma, once for all tests.
func (b *Bed) Plugin(t *testing.T) Plugin {
	t.Helper()
	path := filepath.Join(b.dir, "kubectl-rdma")
	if _, err := os.Stat(path); err == nil {
		return Plugin{b, path}
	}
	must.NoError(t, b.Checkout.Build(t.Context(), "./cmd/kubectl-rdma", path))
	return Plugin{b, path}
}

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
