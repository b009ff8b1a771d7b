package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/featuregate"
)

// minorVersion is a version of Kubernetes from the oldest one on that has resource.k8s.io/v1.
var minorVersion = regexp.MustCompile(`\bv?1\.(3[4-9]|[4-9]\d)(\.\d+)?\b`)

// address is the target of a link, which may have the version of a source.
var address = regexp.MustCompile(`https?://[^\s)]+`)

// versionsSaid are all statements about versions of Kubernetes in the documents and the chart. A word in braces is a
// number of the table of gates, Chart.yaml or go.mod. A plain number is no gate's, and has its source beside it.
var versionsSaid = []string{
	"{oldest} to {newest}", "Kubernetes is older than {oldest}", `kubeVersion: ">={oldest}.0-0"`,
	"Before {shares}, shares, groups, taints and old pods with `rdma/hca` need",
	"Below Kubernetes {shares}, switch on two [feature gates](compatibility.md#feature-gates). Without `DRAConsumable",
	"Below {shares}, switch on the [feature gates]", "Kubernetes before {shares}, or a feature gate is off",
	"You need Kubernetes {old}, or [feature gates](compatibility.md#feature-gates) in {old-since} or {old-1}: `DRAEx",
	"Kubernetes {old-since} and {old-1} need the feature gate DRAExtendedResource",
	"From Kubernetes {old} on, pods can keep `vpc.amazonaws.com/efa: 4`", `semverCompare "<{old}.0-0"`,
	"Before Kubernetes {drain}, set the [gate](compatibility.md#feature-gates) `DRADeviceTaintRules`",
	"drain before {drain} [its API]", "on {shares-1} also `DRADeviceTaints`",

	// resource.k8s.io/v1 is in Kubernetes since 1.34.
	"(resource.k8s.io/v1) since 1.34",
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

// numbers replaces the words in braces of versionsSaid.
func numbers(t *testing.T) *strings.Replacer {
	t.Helper()
	minor := func(path, pattern string) int {
		found := regexp.MustCompile(pattern).FindStringSubmatch(contents(t, path))
		must.NotNil(t, found, must.Sprintf("%s has not %s", path, pattern))
		n, err := strconv.Atoi(found[1])
		must.NoError(t, err)
		return n
	}
	gate := func(name string) featuregate.Gate {
		at := slices.IndexFunc(featuregate.Gates, func(g featuregate.Gate) bool { return g.Name == name })
		return featuregate.Gates[at]
	}
	shares, old := gate(featuregate.ConsumableCapacity).On, gate(featuregate.ExtendedResource)
	for _, name := range []string{featuregate.ExtendedResource, featuregate.DeviceTaints, "ResourceHealthStatus"} {
		must.Eq(t, shares, gate(name).On, must.Sprintf("pages say one version for the gates of shares and %s", name))
	}
	newest := minor("go.mod", `k8s\.io/api v0\.(\d+)\.`)
	var words []string
	for word, n := range map[string]int{
		"{oldest}": minor("deployments/helm/dra-driver-rdma/Chart.yaml", `kubeVersion: ">=1\.(\d+)\.0-0"`),
		"{newest}": newest, "{newest-1}": newest - 1, "{shares}": shares, "{shares-1}": shares - 1,
		"{old}": old.On, "{old-1}": old.On - 1, "{old-since}": old.Since, "{drain}": gate(featuregate.DeviceTaintRules).On,
	} {
		words = append(words, word, fmt.Sprintf("1.%d", n))
	}
	return strings.NewReplacer(words...)
}

// gatesTable is the part of docs/compatibility.md that TestGates of test/cluster makes of the table.
var gatesTable = regexp.MustCompile(`(?s)<!-- gates: .*<!-- end of gates -->`)

// unknownVersions are the versions of Kubernetes in a text that no known statement has, with what is around them.
func unknownVersions(text string, said []string) (unknown []string) {
	text = address.ReplaceAllString(gatesTable.ReplaceAllString(text, ""), "")
	text = strings.Join(strings.Fields(text), " ")
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
	var said []string
	known, all := numbers(t), ""
	for _, statement := range versionsSaid {
		said = append(said, known.Replace(statement))
	}
	for _, path := range paths {
		text := contents(t, path)
		all += strings.Join(strings.Fields(text), " ") + "\n"
		for _, where := range unknownVersions(text, said) {
			t.Errorf("%s: compare with docs/compatibility.md, and add to versionsSaid: ...%s...", path, where)
		}
	}
	for _, statement := range said {
		test.StrContains(t, all, statement, test.Sprint("no page has this statement of versionsSaid"))
	}
	for planted, wrong := range map[string]int{
		"You need Kubernetes {oldest} to\n{newest}.": 0, "You need Kubernetes {oldest} to {newest-1}.": 2,
		"Shares need {shares-1}.": 1, "[a](https://example.com/v{newest}.0) of {newest}": 1,
		"Below {shares-1}, switch on the [feature gates]": 1, "Before v{shares}: no shares. From 1.40 on: no gates.": 2,
	} {
		test.SliceLen(t, wrong, unknownVersions(known.Replace(planted), said), test.Sprint(planted))
	}
}
