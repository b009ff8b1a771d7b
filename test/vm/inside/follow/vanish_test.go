package follow

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// TestVanishes: in exclusive mode a pod has an HCA and a macvlan on the HCA's interface, and all of it vanishes.
func TestVanishes(t *testing.T) {
	needs.Long(t, "TestPageGone of pkg/dra has an HCA that goes, and TestMove one whose pod ended unseen")
	vanishes(t, end{"loses", "one", "rxm9"}, "lost0", func(end) {})
}

// TestVanishesShared is TestVanishes in shared mode.
func TestVanishesShared(t *testing.T) {
	needs.Long(t, "TestPageGone of pkg/dra has an HCA that goes, and TestMove interfaces of pods")
	share(t)
	vanishes(t, end{"misses", "one", "rxm10"}, "lost1", func(e end) { e.described(t) })
}

// vanishes removes the interface of a pod's HCA from the host, which takes the HCA and the pod's macvlan with it. The
// device gets a taint, and pod and claim have an event. The pod's container runs on, and nothing of the pod is left
// when it is deleted. The driver says once what the claim lacks.
func vanishes(t *testing.T, e end, netdev string, described func(end)) {
	t.Helper()
	before := counted(t)
	makeHCA(t, e.ibdev, netdev)
	createNetworked(t, e.pod, e.ibdev, `{"ipam":"roce","mode":"macvlan"}`)
	ready(t, e.pod)
	logged(t, e.pod, e.container, "hca_id:\t"+e.ibdev)
	t.Logf("pod %s has %v", e.pod, e.link(t))
	described(e)
	device := e.claim(t).Status.Devices[0].Device
	inside.Must(t, "ip", "link", "del", netdev)
	awaitGone(t, e.pod, device)
	links, err := linksOf("nsenter", "--net", "--target", strconv.Itoa(sandbox(t, e.pod)))
	if err != nil || slices.ContainsFunc(links, func(l *link) bool { return l.Name == podInterface }) {
		t.Errorf("the pod has %v, %v", links, err)
	}
	if p := get(t, e.pod); !running(p) || p.Status.ContainerStatuses[0].RestartCount > 0 {
		t.Errorf("the pod does not run any more: %+v", p.Status)
	}
	ends(t, e.pod)
	home(t, before)
	loggedOnce(t, "Some CDI specs do not fit the host", device)
}

// loggedOnce checks that the driver has logged a message about a device, with each error only once.
func loggedOnce(t *testing.T, message, device string) {
	t.Helper()
	log, err := node.Output(t.Context(), "kubectl", "--namespace", deploy.Namespace, "logs", "--tail=-1",
		"--selector", "app.kubernetes.io/name=dra-driver-rdma")
	must.NoError(t, err)
	times := map[string]int{}
	for line := range strings.Lines(log) {
		if _, reason, found := strings.Cut(line, message); found && strings.Contains(reason, device) {
			times[reason]++
		}
	}
	test.NotEq(t, 0, len(times), test.Sprintf("the driver has not logged %q of %s:\n%s", message, device, log))
	for reason, n := range times {
		test.LessEq(t, 1, n, test.Sprintf("the driver has logged %q%s %d times", message, reason, n))
	}
}

// makeHCA makes an HCA with its interface, and waits until the driver offers it. The interface has an address, since
// offers leaves out devices with any taint.
func makeHCA(t *testing.T, ibdev, netdev string) {
	t.Helper()
	inside.Must(t, "ip", "link", "add", netdev, "type", "veth", "peer", "name", netdev+"p")
	t.Cleanup(func() { inside.Run("ip", "link", "del", netdev) })
	inside.Must(t, "ip", "addr", "add", "10.77.99.1/24", "dev", netdev)
	inside.Must(t, "ip", "link", "set", netdev+"p", "up")
	inside.Must(t, "ip", "link", "set", netdev, "up")
	inside.Must(t, "rdma", "link", "add", ibdev, "type", "rxe", "netdev", netdev)
	awaitOffer(t, ibdev)
}

// awaitGone waits until taint, events and the pod's status say that a device is gone.
func awaitGone(t *testing.T, name, device string) {
	t.Helper()
	inside.Eventually(t, device+" has the taint device-gone", 2*time.Minute, func() error {
		taints, err := taintsOf(t, device)
		if err == nil && !slices.Contains(taints, "rdma.dev/device-gone") {
			err = fmt.Errorf("it has the taints %v", taints)
		}
		return err
	})
	inside.Eventually(t, "events of pod and claim", 2*time.Minute, func() error {
		n := 0
		all := events(t, name) // the claim has the pod's name
		for _, e := range all {
			if strings.HasPrefix(e, "RDMADeviceGone: ") && strings.Contains(e, device) {
				n++
			}
		}
		if n < 2 {
			return errors.New(strings.Join(all, "\n"))
		}
		return nil
	})
	inside.Eventually(t, "the pod's status says Unhealthy", 2*time.Minute, func() error {
		for _, c := range get(t, name).Status.ContainerStatuses {
			for _, r := range c.AllocatedResourcesStatus {
				if len(r.Resources) == 1 && r.Resources[0].Health == "Unhealthy" {
					return nil
				}
			}
		}
		return fmt.Errorf("it says %+v", get(t, name).Status.ContainerStatuses)
	})
}

// taintsOf are the keys of a device's taints.
func taintsOf(t *testing.T, device string) (keys []string, err error) {
	t.Helper()
	ours := metav1.ListOptions{FieldSelector: "spec.driver=rdma.dev"}
	list, err := client.ResourceV1().ResourceSlices().List(t.Context(), ours)
	if err != nil {
		return nil, err
	}
	for _, slice := range list.Items {
		i := slices.IndexFunc(slice.Spec.Devices, func(d resourceapi.Device) bool { return d.Name == device })
		if i < 0 {
			continue
		}
		for _, taint := range slice.Spec.Devices[i].Taints {
			keys = append(keys, taint.Key)
		}
		return keys, nil
	}
	return nil, fmt.Errorf("%s is not published", device)
}
