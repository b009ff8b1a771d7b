package artifacts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/featuregate"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/artifacts"
)

// TestGates: the table of feature gates is that of kube_features.go in each release's own source, and
// docs/compatibility.md has it, with what the newest source plans.
func TestGates(t *testing.T) {
	table := "| gate | for | 1.34 | 1.35 | 1.36 | 1.37 | planned |\n|---|---|---|---|---|---|---|\n"
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
		table += " " + planned(source[37], gate.Name) + " |\n"
	}
	table += "\n" + versions()
	golden.Section(t, "../../../../docs/compatibility.md", "gates", table)
}

// features returns kube_features.go of the release that a wrapper module pins.
func features(t *testing.T, wrapper string) string {
	t.Helper()
	store := artifacts.Store{Source: "../.."}
	dir, err := store.ModuleDir(t.Context(), artifacts.Component{Wrapper: wrapper, Module: "k8s.io/kubernetes"})
	must.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "pkg/features/kube_features.go"))
	must.NoError(t, err)
	return string(text)
}

var spec = regexp.MustCompile(`\{Version: version\.MustParse\("[0-9.]+"\), Default: (\w+), PreRelease: [\w.]+(.*?)\}`)

// state returns the state of a gate by default, which its last line says: "-" for not there, off, on, or locked.
func state(text, gate string) string {
	block := blockOf(text, gate)
	if block == "" {
		return "-"
	}
	lines := spec.FindAllStringSubmatch(block, -1)
	switch last := lines[len(lines)-1]; {
	case strings.Contains(last[2], "LockToDefault: true"):
		return "locked"
	case last[1] == "true":
		return "on"
	}
	return "off"
}

// blockOf returns the lines of a gate, "" if it is not there.
func blockOf(text, gate string) string {
	_, block, _ := strings.Cut(text, "\n\t"+gate+": {\n")
	block, _, _ = strings.Cut(block, "\n\t},")
	return block
}

var (
	locks   = regexp.MustCompile(`LockToDefault(?:: true)? in 1\.(\d+)`)
	removes = regexp.MustCompile(`[Rr]emove (?:completely )?in v?1\.(\d+)`)
)

// planned says what comments of the source plan for a gate: "?" if nothing.
func planned(text, gate string) string {
	block := blockOf(text, gate)
	if m := locks.FindStringSubmatch(block); m != nil {
		return "locked in 1." + m[1]
	}
	if m := removes.FindStringSubmatch(block); m != nil {
		return "gone in 1." + m[1]
	}
	return "?"
}

// versions says when Kubernetes removes versions of the API: its own source does.
func versions() string {
	_, beta1 := (&resourcev1beta1.ResourceClaim{}).APILifecycleRemoved()
	_, beta2 := (&resourcev1beta2.ResourceClaim{}).APILifecycleRemoved()
	_, rules := (&resourcev1beta2.DeviceTaintRule{}).APILifecycleRemoved()
	_, alpha := (&resourcev1alpha3.DeviceTaintRule{}).APILifecycleRemoved()
	return fmt.Sprintf("Claims, classes and slices: `v1` since 1.34; `v1beta1` goes in 1.%d, `v1beta2` in 1.%d. "+
		"DeviceTaintRules: `v1`\nsince 1.37; `v1alpha3` goes in 1.%d, `v1beta2` in 1.%d.\n", beta1, beta2, alpha, rules)
}
