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

// Every example of a configuration file is one, and means something on some machine.
func TestExamplesOfDocs(t *testing.T) {
	for _, doc := range []string{policyDoc, sharingDoc, networkDoc} {
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

// things are what claims can have of one card, in the order of the tables of
// docs/sharing.md.
var things = []struct {
	name    string
	pf, vf  string // the forms that publish it
	group   bool
	request resourceapi.DeviceClaim
}{
	{name: "the HCA alone", pf: "exclusive", request: one(hca, pfAt)},
	{name: "a share of it", pf: "shared", request: one(share, pfAt)},
	{name: "its VF alone", vf: "exclusive", request: one(parts, vfAt)},
	{name: "a share of the VF", vf: "shared", request: one(share, vfAt)},
	{name: "a group with the HCA", group: true, request: one(groupCards)},
}

// TestExclusionTables compares the tables of docs/sharing.md with what the scheduler
// does.
func TestExclusionTables(t *testing.T) {
	doc := read(t, sharingDoc)
	for title, partitioning := range map[string]bool{"### With partitioning": true, "### Without partitioning": false} {
		_, section, found := strings.Cut(doc, title+"\n")
		if !found {
			t.Errorf("docs/sharing.md has no section %q", title)
			continue
		}
		var want strings.Builder
		want.WriteString("| claims have | the HCA alone | a share of it | its VF alone | a share of the VF | a group with the HCA |\n|---|---|---|---|---|---|\n")
		for _, held := range things {
			fmt.Fprintf(&want, "| %s |", held.name)
			for _, asked := range things {
				fmt.Fprintf(&want, " %s |", together(t, partitioning, controlplane.V136(), held.name, asked.name))
			}
			want.WriteString("\n")
		}
		test.StrContains(t, strings.SplitN(section, "\n#", 2)[0], want.String(),
			test.Sprintf("docs/sharing.md, %q: the scheduler makes it\n%s", title, &want))
	}
}

// TestExclusionWithoutCounters: as without partitioning, but the HCA alone goes together with nothing of its card.
func TestExclusionWithoutCounters(t *testing.T) {
	lacking := controlplane.V136()
	lacking.PartitionableDevices = false
	for i, held := range things {
		for j, asked := range things {
			want := "never both"
			if i == j || i > 0 && j > 0 {
				want = together(t, false, controlplane.V136(), held.name, asked.name)
			}
			test.Eq(t, want, together(t, true, lacking, held.name, asked.name), test.Sprint(held.name, " and ", asked.name))
		}
	}
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
		return "never both"
	}
	cluster := emptyCluster(t, features)
	cluster.Publish(rdma.Domain, c.Apply(snapshot(t, "roce-sriov"), policy.State{NoCounters: !features.PartitionableDevices}).Slices())
	for _, claim := range claims {
		if take(t, cluster, "alone", claim) == nil {
			return "never both"
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
