package driver

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	healthpb "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/genl"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside/published"
)

// The devices, which are the slots: rxe1 of dummy0 is held by a claim, rxe0 of eth0 is
// free.
const (
	held = "soft-rxe-dummy0"
	free = "soft-rxe-eth0"
)

// node is the guest, with a driver that publishes at once what it finds.
type node struct {
	*testing.T
	*published.Pool
	client  kubernetes.Interface
	kubelet *drivertest.Kubelet
	cdi     string
	state   string
	claim   *resourceapi.ResourceClaim
	log     *drivertest.Log
}

// start runs the driver until the test ends, and prepares a claim on one device.
func start(t *testing.T) *node {
	t.Helper()
	config, err := drivertest.ConfigOf(os.Getenv("KUBECONFIG"))
	must.NoError(t, err)
	config.Host = "https://" + cluster.ServiceIP + ":443" // as the guest reaches it
	client, err := kubernetes.NewForConfig(config)
	must.NoError(t, err)
	n := &node{T: t, client: client, kubelet: drivertest.NewKubelet(t), state: t.TempDir(), cdi: t.TempDir()}
	n.Pool = published.Follow(t, n.client)
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: drivertest.NodeName}}
	object.Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.1.0"
	if _, err := n.client.CoreV1().Nodes().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.run()
	n.Await(t, held, published.Tainted())
	n.Await(t, free, published.Tainted())
	n.prepare()
	n.Hold(t, held)
	return n
}

// run runs the driver.
func (n *node) run() {
	n.Helper()
	p, err := policy.Parse([]byte("apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n" +
		"health: {downAfter: 0s, upAfter: 0s}\npublishInterval: 0s\n"))
	if err != nil {
		n.Fatal(err)
	}
	driver, err := dra.New(dra.Config{
		NodeName: drivertest.NodeName, HostRoot: "/", KubeletDir: n.kubelet.Dir, StateDir: n.state, CDIDir: n.cdi,
		Site: plan.DefaultSite(), Policy: p,
		Genl: &genl.Kernel{},
	}, n.client)
	if err != nil {
		n.Fatal(err)
	}
	n.log = &drivertest.Run(n.T, driver).Log
	n.kubelet.WaitForPlugins(1)
}

// prepare makes a claim that was allocated the device, as the scheduler does, and has it
// prepared, as the kubelet does.
func (n *node) prepare() {
	n.Helper()
	claims := n.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault)
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "held"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{
		Name: "r0", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "hca.rdma.dev"},
	}}
	claim, err := claims.Create(n.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		n.Fatal(err)
	}
	claim.Status.Allocation = drivertest.Claim(1, held).Status.Allocation
	if n.claim, err = claims.UpdateStatus(n.Context(), claim, metav1.UpdateOptions{}); err != nil {
		n.Fatal(err)
	}
	if err := n.prepared(n.claim); err != nil {
		n.Fatal(err)
	}
}

// prepared returns why the claim is not prepared.
func (n *node) prepared(c *resourceapi.ResourceClaim) error {
	response, err := n.kubelet.Prepare(n.Context(), c)
	if err != nil {
		return err
	}
	_, err = drivertest.Devices(response, c)
	return err
}

// healthy waits until the kubelet is told so of the device.
func (n *node) healthy(want healthpb.HealthStatus, message string) {
	n.Helper()
	inside.Eventually(n.T, "health of "+held, patience, func() error {
		report, err := n.kubelet.Health(n.Context())
		if err != nil {
			return err
		}
		for _, d := range report {
			if d.Device.DeviceName == held && d.Health == want && strings.Contains(d.Message, message) {
				return nil
			}
		}
		return fmt.Errorf("want %v with %q, the kubelet is told %v", want, message, report)
	})
}

// spec waits until the spec of the claim has the nodes of an ibdev, which are not those
// from before: a container that is restarted gets them. The kubelet may ask once more.
func (n *node) spec(ibdev, before string) {
	n.Helper()
	uverbs := inside.Node(n.T, "infiniband_verbs", ibdev)
	if uverbs == before {
		n.Fatalf("%s has %s as before: the test has not moved it", ibdev, uverbs)
	}
	inside.Eventually(n.T, "spec of the claim with "+uverbs, patience, func() error {
		got := strings.Join(drivertest.Nodes(drivertest.Spec(n, n.cdi, n.claim)), " ")
		if !strings.Contains(got, "/dev/infiniband/"+uverbs) || strings.Contains(got, "/dev/infiniband/"+before) {
			return fmt.Errorf("the spec has %s", got)
		}
		return nil
	})
	if err := errors.Join(n.prepared(n.claim), drivertest.CheckSpecs(n.cdi)); err != nil {
		n.Error(err)
	}
}
