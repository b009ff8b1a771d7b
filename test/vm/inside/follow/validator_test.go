package follow

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// sitePolicy is the NRI plugin of a site that refuses containers to which a plugin tells a GID index.
type sitePolicy struct{ connected chan struct{} }

const refusal = "this site allows no GID index"

// Synchronize is the last that the runtime calls before it asks the plugin about containers.
func (p *sitePolicy) Synchronize(
	context.Context, []*api.PodSandbox, []*api.Container,
) ([]*api.ContainerUpdate, error) {
	close(p.connected)
	return nil, nil
}

func (p *sitePolicy) ValidateContainerAdjustment(_ context.Context, r *api.ValidateContainerAdjustmentRequest) error {
	for _, v := range r.GetAdjust().GetEnv() {
		if strings.HasPrefix(v.GetKey(), "RDMA_GID_INDEX_") {
			return errors.New(refusal)
		}
	}
	return nil
}

// applyPolicy connects the site's policy with the runtime, until lift.
func applyPolicy(t *testing.T) (lift func()) {
	t.Helper()
	socket := nodeRoot(t) + "/run/nri/nri.sock"
	policy := &sitePolicy{make(chan struct{})}
	plugin, err := stub.New(policy, stub.WithPluginName("site"), stub.WithPluginIdx("99"), stub.WithOnClose(func() {}),
		stub.WithDialer(func(string) (net.Conn, error) { return net.Dial("unix", socket) }))
	if err == nil {
		err = plugin.Start(t.Context())
	}
	must.NoError(t, err)
	t.Cleanup(plugin.Stop)
	<-policy.connected
	return plugin.Stop
}

// TestRefused: the site's NRI plugin refuses what the driver tells a container. The container does not start, the pod's
// event has the plugin's reason, and the pod keeps HCA and interface. A pod that is deleted then gives both back. The
// other one starts without the plugin, and is told the index.
func TestRefused(t *testing.T) {
	needs.Long(t, "TestFailsClosed shows a pod whose containers do not start")
	before := counted(t)
	lift := applyPolicy(t)
	starts, deleted := end{"starts", "one", "rxm1"}, end{"deleted", "one", "rxm2"}
	for i, e := range []end{starts, deleted} {
		createNetworked(t, e.pod, e.ibdev, fmt.Sprintf(`{"addresses":["10.79.3.%d/24"],"mode":"move"}`, i+1))
	}
	for _, e := range []end{starts, deleted} {
		inside.Eventually(t, "an event of pod "+e.pod+" has the reason", 3*time.Minute, func() error {
			all := events(t, e.pod)
			i := slices.IndexFunc(all, func(e string) bool {
				return strings.HasPrefix(e, "Failed: ") && strings.Contains(e, refusal)
			})
			if i < 0 {
				return errors.New(strings.Join(all, "\n"))
			}
			t.Log(all[i])
			return nil
		})
		for _, s := range get(t, e.pod).Status.ContainerStatuses {
			if s.State.Waiting == nil || s.LastTerminationState.Terminated != nil || s.RestartCount > 0 {
				t.Errorf("a container of pod %s has run: %+v", e.pod, s)
			}
		}
		has, err := devices(fmt.Sprint(sandbox(t, e.pod)))
		if err != nil || !slices.Equal(has, []string{e.ibdev}) {
			t.Errorf("the sandbox of pod %s has %v, %v", e.pod, has, err)
		}
		t.Logf("pod %s has %v", e.pod, e.link(t))
	}
	ends(t, deleted.pod)
	lift()
	ready(t, starts.pod)
	starts.described(t)
	ends(t, starts.pod)
	home(t, before)
}
