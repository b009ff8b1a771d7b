package follow

import (
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// Only what can follow a pod is offered.
func TestOffered(t *testing.T) {
	if got, err := offers(t.Context()); err != nil || !slices.Equal(got, movable) {
		t.Errorf("the driver offers %v, want %v; %v", got, movable, err)
	}
}

// A pod with a claim has its HCA and no other, in both its containers and in exec sessions,
// with the same limit of locked memory; a pod without a claim sees none. The HCA comes back as
// itself.
func TestFollow(t *testing.T) {
	before := counted(t)
	runs(t, "without", "", both)
	runs(t, "with", "rxm0", both)
	if names, err := devices("self"); err != nil || slices.Contains(names, "rxm0") {
		t.Errorf("while a pod has it, the host has %v, %v", names, err)
	}
	test.True(t, slices.ContainsFunc(files(t), func(f string) bool { return strings.HasPrefix(f, records) }),
		test.Sprint("while a pod has a claim the host has the files"))
	for pod, words := range map[string][]string{
		"with": {
			"memlock unlimited unlimited devices rxm0 nodes rdma_cm " + inside.Node(t, "infiniband_verbs", "rxm0") + " ",
			"hca_id:\trxm0", "PORT_ACTIVE",
		},
		"without": {" devices nodes "},
	} {
		for _, c := range both {
			logged(t, pod, c, words...)
			session, err := exec(t.Context(), pod, c, look)
			must.NoError(t, err)
			inside.Wants(t, "a session in container "+c+" of pod "+pod, session, words...)
		}
	}
	if got, err := offers(t.Context()); err != nil || !slices.Equal(got, movable) {
		t.Errorf("while a pod has one, the driver offers %v, want %v; %v", got, movable, err)
	}
	ends(t, "with")
	home(t, before)
	ends(t, "without")
}
