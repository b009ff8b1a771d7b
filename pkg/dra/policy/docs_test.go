package policy_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const (
	policyDoc  = "../../../docs/policy.md"
	sharingDoc = "../../../docs/sharing.md"
	networkDoc = "../../../docs/network.md"
	operateDoc = "../../../docs/operate.md"
)

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	must.NoError(t, err)
	return string(data)
}

var (
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	fieldRow  = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
)

// Every example of a policy is one, and means something on some machine.
func TestExamplesOfDocs(t *testing.T) {
	for _, doc := range []string{policyDoc, sharingDoc, networkDoc, operateDoc} {
		for i, block := range yamlBlock.FindAllStringSubmatch(read(t, doc), -1) {
			text := block[1]
			switch {
			case strings.Contains(text, "kind: DriverConfig"):
			case doc == networkDoc && !strings.HasPrefix(text, "ipam:"):
				continue // parts of parameters
			case regexp.MustCompile(`(?m)^kind:`).MatchString(text), strings.HasPrefix(text, "constraints:"), strings.HasPrefix(text, "requests:"):
				continue // objects of Kubernetes, and parts of them
			default:
				text = header + text
			}
			c, err := policy.Parse([]byte(text))
			if err != nil {
				t.Errorf("%s, example %d: %v", doc, i, err)
				continue
			}
			for _, machine := range fixture.Names() {
				valid(t, c.Apply(snapshot(t, machine), policy.State{}).Slices())
			}
		}
	}
}

// The reference has all fields of the file that Parse reads, in its order, and no others.
func TestFieldsOfDocs(t *testing.T) {
	_, text, _ := strings.Cut(read(t, "../../../docs/reference/configuration.md"), "\n## DriverConfig\n")
	text, _, _ = strings.Cut(text, "\n## ")
	documented := []string{"apiVersion", "kind"} // of every kind
	for _, row := range fieldRow.FindAllStringSubmatch(text, -1) {
		documented = append(documented, row[1])
	}
	test.Eq(t, policy.Fields(), documented, test.Sprint("fields"))
}

// things are what claims can have of one card, in the order of the table of docs/sharing.md.
var things = []struct {
	name    string
	pf, vf  string // the forms that publish it
	group   bool
	request resourceapi.DeviceClaim
}{
	{name: "the HCA", pf: "exclusive", request: one(hca, pfAt)},
	{name: "a share of it", pf: "shared", request: one(share, pfAt)},
	{name: "its VF", vf: "exclusive", request: one(parts, vfAt)},
	{name: "a share of its VF", vf: "shared", request: one(share, vfAt)},
	{name: "a group with it", group: true, request: one(groupCards)},
}

// TestExclusionTable compares the table of docs/sharing.md with what the scheduler does. Pairs that are always together
// have no row.
func TestExclusionTable(t *testing.T) {
	lacking := controlplane.V136()
	lacking.PartitionableDevices = false
	modes := []struct {
		partitioning bool
		features     controlplane.Features
	}{{false, controlplane.V136()}, {true, controlplane.V136()}, {true, lacking}}
	want := "| two claims for | without `partitioning` | with `partitioning` | with it, but the gate is off |\n" +
		"|---|---|---|---|\n"
	for i, first := range things {
		for _, second := range things[i:] {
			row := "| " + first.name + ", " + second.name + " |"
			for _, mode := range modes {
				says := together(t, mode.partitioning, mode.features, first.name, second.name)
				test.Eq(t, says, together(t, mode.partitioning, mode.features, second.name, first.name),
					test.Sprintf("%s with %v, in the other order", row, mode))
				row += " " + says + " |"
			}
			if strings.Contains(row, " waits |") || strings.Contains(row, " never |") {
				want += row + "\n"
			}
		}
	}
	test.StrContains(t, read(t, sharingDoc), want+"\n", test.Sprintf("docs/sharing.md: the scheduler makes it\n%s", want))
}

// together says whether the scheduler gives one claim the first thing and another one
// the second, under a policy that publishes both.
func together(t *testing.T, partitioning bool, features controlplane.Features, first, second string) string {
	t.Helper()
	forms := map[string]map[string]bool{"pf": {}, "vf": {}}
	group := ""
	var claims []resourceapi.DeviceClaim
	for _, name := range []string{first, second} {
		for _, thing := range things {
			if thing.name != name {
				continue
			}
			forms["pf"][thing.pf], forms["vf"][thing.vf] = true, true
			if thing.group {
				group = "groups: [{name: cards, selectors: [{cel: {expression: 'device.attributes[\"rdma.dev\"].ibdev == \"mlx5_0\"'}}]}]"
			}
			claims = append(claims, thing.request)
		}
	}
	text := fmt.Sprintf("%spartitioning: %t\nrules:\n%s%s%s", header, partitioning, rule("pf", forms["pf"]), rule("vf", forms["vf"]), group)
	c, err := policy.Parse([]byte(text))
	if err != nil {
		return "never"
	}
	cluster := emptyCluster(t, features)
	cluster.Publish(rdma.Domain, c.Apply(snapshot(t, "roce-sriov"), policy.State{NoCounters: !features.PartitionableDevices}).Slices())
	for _, claim := range claims {
		if take(t, cluster, "alone", claim) == nil {
			return "never"
		}
		cluster.Release("alone")
	}
	take(t, cluster, "first", claims[0])
	if take(t, cluster, "second", claims[1]) == nil {
		return "waits"
	}
	return "together"
}

// rule publishes the functions of a kind by these forms.
func rule(function string, forms map[string]bool) string {
	form := "none"
	switch {
	case forms["exclusive"] && forms["shared"]:
		form = "both"
	case forms["exclusive"]:
		form = "exclusive"
	case forms["shared"]:
		form = "shared"
	}
	return fmt.Sprintf("- {name: %s, selectors: [{cel: {expression: 'device.attributes[\"rdma.dev\"].function == %q'}}], publish: %s}\n", function, function, form)
}
