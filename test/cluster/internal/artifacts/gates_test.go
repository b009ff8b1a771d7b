package artifacts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/featuregate"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// TestGates: the table of feature gates is that of kube_features.go in each release's own source, and
// docs/compatibility.md has it.
func TestGates(t *testing.T) {
	table := "| gate | for | 1.34 | 1.35 | 1.36 | 1.37 |\n|---|---|---|---|---|---|\n"
	source := map[int]string{}
	for minor, wrapper := range map[int]string{
		34: "kubernetes-1.34", 35: "kubernetes-1.35", 36: "kubernetes-1.36", 37: "cluster",
	} {
		source[minor] = features(t, wrapper)
	}
	for _, gate := range featuregate.Gates {
		table += fmt.Sprintf("| `%s` | %s |", gate.Name, gate.For)
		for minor := 34; minor <= 37; minor++ {
			got := featuregate.State(gate.Name, minor)
			test.Eq(t, state(source[minor], gate.Name), got, test.Sprintf("%s in Kubernetes 1.%d", gate.Name, minor))
			table += " " + got + " |"
		}
		table += "\n"
	}
	golden.Section(t, "../../../../docs/compatibility.md", "gates", table)
}

// features returns kube_features.go of the release that a wrapper module pins.
func features(t *testing.T, wrapper string) string {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "k8s.io/kubernetes")
	download.Dir = filepath.Join("../../build", wrapper)
	out, err := download.Output()
	must.NoError(t, err, must.Sprint("download the source of Kubernetes"))
	var module struct{ Dir string }
	must.NoError(t, json.Unmarshal(out, &module))
	text, err := os.ReadFile(filepath.Join(module.Dir, "pkg/features/kube_features.go"))
	must.NoError(t, err)
	return string(text)
}

var spec = regexp.MustCompile(`\{Version: version\.MustParse\("[0-9.]+"\), Default: (\w+), PreRelease: [\w.]+(.*?)\}`)

// state returns the state of a gate by default, which its last line says: "-" for not there, off, on, or locked.
func state(text, gate string) string {
	_, block, found := strings.Cut(text, "\n\t"+gate+": {\n")
	if !found {
		return "-"
	}
	block, _, _ = strings.Cut(block, "\n\t},")
	lines := spec.FindAllStringSubmatch(block, -1)
	switch last := lines[len(lines)-1]; {
	case strings.Contains(last[2], "LockToDefault: true"):
		return "locked"
	case last[1] == "true":
		return "on"
	}
	return "off"
}
