package artifacts_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// gates are the feature gates of Kubernetes that documents name, with what they give.
var gates = [][2]string{
	{"DRAPrioritizedList", "lists of devices"},
	{"DRAConsumableCapacity", "shares, groups"},
	{"DRAPartitionableDevices", "partitioning"},
	{"DRADeviceTaints", "taints"},
	{"DRADeviceTaintRules", "drain"},
	{"DRAExtendedResource", "`rdma/hca` in limits"},
	{"ResourceHealthStatus", "health of pods"},
	{"DRAResourceClaimDeviceStatus", "status of claims"},
	{"DRAAdminAccess", "monitoring"},
	{"DRAWorkloadResourceClaims", "claims of PodGroups"},
	{"DRAListTypeAttributes", "lists of NUMA nodes"},
	{"DRADerivedAttributes", "computed attributes"},
}

// minors are the releases of Kubernetes that documents name.
var minors = []string{"1.34", "1.35", "1.36", "1.37"}

// TestGates: docs/compatibility.md says the state of each gate in each release. The newest release that runs here has
// them all in kube_features.go. The oldest one has its own, which are the same.
func TestGates(t *testing.T) {
	newest, oldest := features(t, "cluster"), features(t, "kubernetes-1.34")
	table := "| gate | for | 1.34 | 1.35 | 1.36 | 1.37 |\n|---|---|---|---|---|---|\n"
	for _, gate := range gates {
		table += fmt.Sprintf("| `%s` | %s |", gate[0], gate[1])
		for _, minor := range minors {
			table += " " + state(t, newest, gate[0], minor) + " |"
		}
		table += "\n"
		test.Eq(t, state(t, oldest, gate[0], "1.34"), state(t, newest, gate[0], "1.34"), test.Sprint(gate[0]))
	}
	golden.Section(t, "../../../../docs/compatibility.md", "gates", table)
}

// features returns kube_features.go of the release that a wrapper module pins.
func features(t *testing.T, wrapper string) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	list.Dir = filepath.Join("../../build", wrapper)
	dir, err := list.Output()
	must.NoError(t, err, must.Sprint("find Kubernetes in the module cache"))
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "pkg/features/kube_features.go"))
	must.NoError(t, err)
	return string(text)
}

var spec = regexp.MustCompile(`\{Version: version\.MustParse\("([0-9.]+)"\), Default: (\w+), PreRelease: [\w.]+(.*?)\}`)

// state returns the state of a gate in a release: "-" for not there, off, on, or locked. The last line that is not
// newer than the release counts.
func state(t *testing.T, text, gate, minor string) string {
	t.Helper()
	_, block, found := strings.Cut(text, "\n\t"+gate+": {\n")
	if !found {
		return "-"
	}
	block, _, _ = strings.Cut(block, "\n\t},")
	state := "-"
	for _, m := range spec.FindAllStringSubmatch(block, -1) {
		if version.MustParse(m[1]).GreaterThan(version.MustParse(minor)) {
			continue
		}
		switch {
		case strings.Contains(m[3], "LockToDefault: true"):
			state = "locked"
		case m[2] == "true":
			state = "on"
		default:
			state = "off"
		}
	}
	return state
}
