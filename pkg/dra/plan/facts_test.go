package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// The members of a group are those at the time of the plan, sorted.
func TestGroupMembers(t *testing.T) {
	p := grouped(t, claim(results{share(result("nics", "group-all"), "s1"), result("nic", "pci-0000-c1-00-0")}))
	want := []string{"pci-0000-3b-00-0", "pci-0000-3b-00-1"}
	test.Eq(t, want, p.Devices[0].Members, test.Sprint("members"))
	test.Eq(t, append(want, "pci-0000-c1-00-0"), p.HCAs(), test.Sprint("HCAs of the plan"))
}

func TestGroupErrors(t *testing.T) {
	known := here
	known.Groups = groups
	for _, tc := range []struct {
		name, device string
		node         plan.Facts
		want         string
	}{
		{"no groups", "group-all", here, "no such group"},
		{"unknown group", "group-none", known, "no such group"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := plan.New(claim(one(result("nics", tc.device))), tc.node)
			test.True(t, err != nil && strings.Contains(err.Error(), tc.want) &&
				strings.Contains(err.Error(), "claim team-a/nics, request nics: device "+tc.device),
				test.Sprintf("error is %v, want it to name claim, request, device and %q", err, tc.want))
		})
	}
}

// A claim that is prepared once more gets what it was given the first time, also
// by the next process of the driver, whatever the node's administrator has changed
// since. What its classes and itself say is in its allocation.
func TestPlanKeepsItsNode(t *testing.T) {
	c := claim(results{share(result("nics", "group-all"), "s1")}, fromClaim(`"env": ["nccl"]`))
	first := here
	first.Groups = groups
	first.Site = plan.Site{Memlock: "1Gi", Env: []string{"A=1"}, Mounts: []cdi.Mount{{HostPath: "/opt/a", ContainerPath: "/opt/b"}}}
	made, err := plan.New(c, first)
	must.NoError(t, err)
	data, err := json.Marshal(made)
	must.NoError(t, err)
	recorded := &plan.Plan{}
	must.NoError(t, json.Unmarshal(data, recorded))
	again, err := plan.New(c, here.WithPrepared(recorded))
	must.NoError(t, err)
	test.Eq(t, made, again, test.Sprint("plan made again"))
	fresh, err := plan.New(c, first.WithPrepared(nil))
	test.True(t, err == nil && cmp.Equal(made, fresh),
		test.Sprintf("without a record the plan is %v, %v", fresh, err))
	// A record without the node's part, and one without the group.
	p, err := plan.New(c, first.WithPrepared(&plan.Plan{}))
	test.True(t, err == nil && cmp.Equal(made, p), test.Sprintf("with an old record the plan is %v, %v", p, err))
}
