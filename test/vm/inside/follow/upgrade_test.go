package follow

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// TestUpgrade: another version of the driver takes over while a pod has an HCA and its interface. The pod keeps both as
// they are, and its container continues. The new driver gives a later pod its HCA, and takes everything back.
func TestUpgrade(t *testing.T) {
	needs.Long(t, "90 s, most of them for the import of a second image; TestSeamlessUpgrade of test/cluster/e2e shows "+
		"the change of versions")
	before := counted(t)
	e := end{"stays", "one", "rxm1"}
	createNetworked(t, e.pod, e.ibdev, `{"addresses":["10.79.5.1/24"],"mode":"move"}`)
	ready(t, e.pod)
	e.described(t)
	was, pid, gids := e.link(t), sandbox(t, e.pod), e.gids(t)
	upgrade(t)
	e.described(t)
	if l := e.link(t); l.String() != was.String() {
		t.Errorf("the pod had %v, and has %v", was, l)
	}
	test.Eq(t, gids, e.gids(t), test.Sprint("the container was told"))
	if s := get(t, e.pod).Status.ContainerStatuses[0]; s.RestartCount > 0 || sandbox(t, e.pod) != pid {
		t.Errorf("the pod has started again: %+v", s)
	}
	runs(t, "later", "rxm0", one)
	logged(t, "later", "one", "hca_id:\trxm0", "PORT_ACTIVE")
	ends(t, "later")
	ends(t, e.pod)
	home(t, before)
}

// gids are the container's variables, and the GIDs of its device.
func (e end) gids(t *testing.T) string {
	t.Helper()
	said, err := exec(t.Context(), e.pod, e.container, fmt.Sprintf(tell, e.ibdev))
	must.NoError(t, err)
	return said
}

// upgrade replaces the driver by the next version, and waits until the old one has ended.
func upgrade(t *testing.T) {
	t.Helper()
	must.NoError(t, node.Load(t.Context(), os.Getenv("NEXT_ARCHIVE")))
	old := drivers(t)
	const next = deploy.ImageName + ":next"
	set := []string{"--namespace", deploy.Namespace, "set", "image", "daemonset/" + deploy.Release, "driver=" + next}
	if out, err := node.Output(t.Context(), "kubectl", set...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	inside.Eventually(t, "the next driver has replaced the first", 4*time.Minute, func() error {
		ofDriver := client.CoreV1().Pods(deploy.Namespace)
		pods, err := ofDriver.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		now := drivers(t)
		if len(pods.Items) != 1 || !running(&pods.Items[0]) || len(now) != 1 || slices.Contains(old, now[0]) {
			return fmt.Errorf("%d pods of drivers, processes %v, first %v", len(pods.Items), now, old)
		}
		log, err := ofDriver.GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
		if err == nil && !strings.Contains(string(log), `version="dra-driver next`) {
			err = fmt.Errorf("it says %s", log)
		}
		return err
	})
}
