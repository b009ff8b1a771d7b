package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/featuregate"
)

// minorVersion is a version of Kubernetes from the oldest one on that has resource.k8s.io/v1.
var minorVersion = regexp.MustCompile(`\b1\.3[4-9](\.\d+)?\b`)

// versionsSaid are all statements about versions of Kubernetes in the documents and the chart. A word in braces is a
// number of the table of gates, Chart.yaml or go.mod. A plain number is no gate's, and has its source beside it.
var versionsSaid = []string{
	"{oldest} to {newest}", "Kubernetes is older than {oldest}", "(resource.k8s.io/v1) since {oldest}",
	`kubeVersion: ">={oldest}.0-0"`,
	"Before {shares}, shares, groups, taints and old pods with `rdma/hca` need",
	"Below Kubernetes {shares}, switch on two [feature gates](compatibility.md#feature-gates). Without `DRAConsumable",
	"Below {shares}, switch on the [feature gates]", "Kubernetes before {shares}, or a feature gate is off",
	"You need Kubernetes {old}, or [feature gates](compatibility.md#feature-gates) in {old-2} or {old-1}: `DRAEx",
	"Kubernetes {old-2} and {old-1} need the feature gate DRAExtendedResource",
	"From Kubernetes {old} on, pods can keep `vpc.amazonaws.com/efa: 4`", `semverCompare "<{old}.0-0"`,
	"Before Kubernetes {drain}, set the [gate](compatibility.md#feature-gates) `DRADeviceTaintRules`",
	"drain before {drain} [its API]", "on {shares-1} also `DRADeviceTaints`",

	// kubernetes#139034 is in 1.36.3.
	"partitioning needs [1.36.3]", "Partitioning needs Kubernetes 1.36.3 or newer", "[Kubernetes 1.36.3 or newer]",
	"It needs Kubernetes 1.36.3 or newer", "`DRAPartitionableDevices`, Kubernetes 1.36.3",
	"partitioning: true # Kubernetes 1.36.3 or newer",
	// Before kubernetes#135068, in 1.35, the gate for taints made the scheduler list DeviceTaintRules.
	"**On 1.34**, `DRADeviceTaints` also needs", "# for DRADeviceTaints on 1.34",
	// PodGroups are in scheduling.k8s.io/v1beta1 since 1.37.
	"claims of PodGroups [1.37]", "From Kubernetes 1.37 on, a PodGroup can have a claim",
	// API servers know the effect None, and resourceclaims/driver, since 1.36: pkg/dra/policy/features.go.
	"The driver publishes it from Kubernetes 1.36 on", "grep miswired # Kubernetes 1.36 and newer",
	"from Kubernetes 1.36 on also resourceclaims/driver",
	// Bugs, limits and plans of Kubernetes, each with its issue or source on the page.
	"On Kubernetes 1.37, each of them costs", "**Kubernetes 1.37**: the scheduler [counts shares twice]",
	"(Kubernetes [1.37][hints])", "does not match our scalar before Kubernetes 1.37", "[1.37's source][features]",
	"stable shares for 1.38",
	// Other products.
	"on EKS 1.34 and newer", "begin with Kubernetes 1.34", "| CRI-O | 1.35 |",
}

// statements are versionsSaid with their numbers.
func statements(t *testing.T) (said []string) {
	t.Helper()
	number := func(path, pattern string) string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(contents(t, path))
		must.NotNil(t, found, must.Sprintf("%s has not %s", path, pattern))
		return "1." + found[1]
	}
	on := func(gate string) int {
		at := slices.IndexFunc(featuregate.Gates, func(g featuregate.Gate) bool { return g.Name == gate })
		return featuregate.Gates[at].On
	}
	shares, old := on(featuregate.ConsumableCapacity), on(featuregate.ExtendedResource)
	for _, gate := range []string{featuregate.ExtendedResource, featuregate.DeviceTaints, "ResourceHealthStatus"} {
		must.Eq(t, shares, on(gate), must.Sprintf("pages say one version for the gates of shares and %s", gate))
	}
	numbers := strings.NewReplacer(
		"{oldest}", number("deployments/helm/dra-driver-rdma/Chart.yaml", `kubeVersion: ">=1\.(\d+)\.0-0"`),
		"{newest}", number("go.mod", `k8s\.io/api v0\.(\d+)\.`),
		"{shares}", fmt.Sprintf("1.%d", shares), "{shares-1}", fmt.Sprintf("1.%d", shares-1),
		"{old}", fmt.Sprintf("1.%d", old), "{old-1}", fmt.Sprintf("1.%d", old-1), "{old-2}", fmt.Sprintf("1.%d", old-2),
		"{drain}", fmt.Sprintf("1.%d", on(featuregate.DeviceTaintRules)),
	)
	for _, statement := range versionsSaid {
		said = append(said, numbers.Replace(statement))
	}
	return said
}

// gatesTable is the part of docs/compatibility.md that TestGates of test/cluster makes of the table.
var gatesTable = regexp.MustCompile(`(?s)<!-- gates: .*<!-- end of gates -->`)

// unknownVersions are the versions of Kubernetes in a text that no known statement has, with what is around them.
func unknownVersions(text string, said []string) (unknown []string) {
	text = strings.Join(strings.Fields(gatesTable.ReplaceAllString(text, "")), " ")
	for _, statement := range said {
		text = strings.ReplaceAll(text, statement, "")
	}
	for _, at := range minorVersion.FindAllStringIndex(text, -1) {
		unknown = append(unknown, text[max(0, at[0]-60):min(len(text), at[1]+40)])
	}
	return unknown
}

// TestVersionsOfKubernetes: documents and chart say of versions of Kubernetes what the table of feature gates says, or
// what has a source in versionsSaid.
func TestVersionsOfKubernetes(t *testing.T) {
	const chart = "deployments/helm/dra-driver-rdma/"
	paths := []string{
		"docs/reference/configuration.md", chart + "Chart.yaml", chart + "README.md", chart + "values.yaml",
		chart + "templates/NOTES.txt",
	}
	for _, page := range userPages(t) {
		paths = append(paths, strings.TrimPrefix(page.Path, checkout+"/"))
	}
	said, all := statements(t), ""
	for _, path := range paths {
		text := contents(t, path)
		all += strings.Join(strings.Fields(text), " ") + "\n"
		for _, where := range unknownVersions(text, said) {
			t.Errorf("%s: compare with docs/compatibility.md, and add to versionsSaid: ...%s...", path, where)
		}
	}
	for _, statement := range said {
		test.True(t, strings.Contains(all, statement), test.Sprintf("versionsSaid has what no page says: %s", statement))
	}
	for planted, wrong := range map[string]int{
		"You need Kubernetes 1.34 to\n1.37.": 0, "You need Kubernetes 1.34 to 1.36.": 2, "Shares need 1.35.": 1,
		"Below Kubernetes 1.35, switch on two [feature gates](compatibility.md#feature-gates). Without `DRAConsumable": 1,
	} {
		test.SliceLen(t, wrong, unknownVersions(planted, said), test.Sprint(planted))
	}
}
