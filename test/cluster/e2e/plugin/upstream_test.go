package plugin

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestSharesCountedTwice runs the commands of a report to Kubernetes. A pod waits, though its shares are free: a later
// pod gets them. If this fails, the scheduler is repaired, and the report has done its work.
func TestSharesCountedTwice(t *testing.T) {
	needs.Long(t, "it shows a fault of the scheduler, and no promise to users")
	b := newBed(t, "", "exclusive")
	report, err := os.ReadFile("../../../../docs/dev/upstream-shares-counted-twice.md")
	must.NoError(t, err)
	_, commands, _ := strings.Cut(string(report), "```sh\n")
	commands, _, found := strings.Cut(commands, "```\n")
	must.True(t, found)

	const pods, each, tries = 20, 9, 8 // it is a race: three of four tries showed it
	bound := pods
	for range tries {
		b.run("bash", "-euc", commands)
		b.until("an answer of the scheduler for each pod", func() bool {
			var short int
			bound, short = b.placed()
			return bound+short == pods
		})
		t.Logf("%d of %d pods have a node", bound, pods)
		if bound < pods {
			break
		}
		b.run("kubectl", "delete", "pods", "--all", "--force", "--grace-period=0")
		b.run("kubectl", "wait", "--for=delete", "resourceclaims", "--all", "--timeout="+testbed.Patience.String())
		b.run("kubectl", "delete", "resourceclaimtemplate/share", "resourceslice/shares", "deviceclass/shares.example.com")
	}
	must.Less(t, pods, bound, must.Sprint("the shares of each pod are counted once"))
	var claims strings.Builder
	for i := range each {
		fmt.Fprintf(&claims, "{name: c%d, resourceClaimTemplateName: share}, ", i+1)
	}
	b.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: late}\nspec:\n  resourceClaims: [" + claims.String() + "]\n" +
		"  containers: [{name: c, image: none, resources: {claims: [{name: c1}]}}]\n")
	b.scheduled("late")
	now, short := b.placed()
	test.Eq(t, bound+1, now, test.Sprint("pods with a node"))
	test.Eq(t, pods-bound, short, test.Sprint("pods that wait for shares"))
}

// placed counts the pods with a node, and those without one whose claims the scheduler could not allocate.
func (b *bed) placed() (bound, short int) {
	b.Helper()
	var list corev1.PodList
	must.NoError(b, json.Unmarshal([]byte(b.run("kubectl", "get", "pods", "-o", "json")), &list))
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.NodeName != "" {
			bound++
			continue
		}
		for _, c := range p.Status.Conditions {
			if strings.Contains(c.Message, "cannot allocate all claims") {
				short++
			}
		}
	}
	return bound, short
}
