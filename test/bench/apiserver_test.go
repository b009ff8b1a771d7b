package bench

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

// startControlPlane starts the real API server with its etcd.
func startControlPlane(b *testing.B) *cluster.ControlPlane {
	b.Helper()
	cp, err := cluster.StartControlPlane(b.Context(), b.TempDir(), cluster.Options{Progress: os.Stderr})
	must.NoError(b, err)
	b.Cleanup(func() {
		test.NoError(b, cp.Stop())
	})
	return cp
}

// clientOf speaks to it as an administrator.
func clientOf(b *testing.B, cp *cluster.ControlPlane) kubernetes.Interface {
	b.Helper()
	client, err := drivertest.ClientOf(cp.Kubeconfig())
	must.NoError(b, err)
	return client
}

// BenchmarkAPIServer is NodePrepareResources beside the real API server, with TLS and etcd: both drivers
// ask the same one, each for a node of its own. What it was asked is in its own metrics.
func BenchmarkAPIServer(b *testing.B) {
	const devices = 64
	cp := startControlPlane(b)
	client := clientOf(b, cp)
	pair := serve(b, cp, client, devices)
	for _, at := range []int{1, atOnce} {
		b.Run(fmt.Sprintf("devices=%d/at-once=%d", devices, at), func(b *testing.B) {
			for round := range 2 + 8 {
				inTurn(round, pair, func(s *served) {
					if round == 2 { // the first two pay for connections
						s.took, s.rates, s.cpu, s.gets, s.writes = nil, nil, 0, 0, 0
					}
					s.turn(b, client, at)
				})
			}
			for _, s := range pair {
				f, n := s.took.figures(), float64(len(s.took))
				f["claims/s"] = float64(time.Second) / s.rates.median()
				f["cpu-ns"] = float64(s.cpu) / n
				f["GETs/op"], f["API-writes/op"] = s.gets/n, s.writes/n
				report(b, "driver="+s.name, f)
			}
		})
	}
}

// served is a side with a node at the real API server.
type served struct {
	*side
	node         string
	claims       []*resourceapi.ResourceClaim
	took, rates  times // of a claim; rates in a turn
	cpu          time.Duration
	gets, writes float64
}

// serve starts both drivers at an API server, with a claim for each device.
func serve(b *testing.B, cp *cluster.ControlPlane, client kubernetes.Interface, devices int) []*served {
	b.Helper()
	m := machine(b, devices)
	host := drivertest.NewHost(b, "none")
	host.Become(b, m)
	ours, empty := &served{side: newSide(b, "ours", host), node: "node-ours"}, &served{side: newSide(b, "empty", host), node: "node-empty"}
	ours.command = append([]string{program(b, "dra-driver")}, append(ours.Flags(""), "--node-name", ours.node, "--kubeconfig", cp.Kubeconfig())...)
	published := ours.register(b, client, devices)
	empty.command = empty.emptyCommand(b, published, empty.node, cp.Kubeconfig())
	empty.register(b, client, devices)
	for _, s := range []*served{ours, empty} {
		for i, name := range deviceNames(b, m) {
			s.claims = append(s.claims, s.allocate(b, client, i, name))
		}
	}
	return []*served{ours, empty}
}

// register makes the node, starts its driver, and returns its slices once they have all devices.
func (s *served) register(b *testing.B, client kubernetes.Interface, devices int) []resourceapi.ResourceSlice {
	b.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}
	node.Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.1.0"
	if _, err := client.CoreV1().Nodes().Create(b.Context(), node, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	s.driver = drivertest.StartProgram(b, s.command...)
	s.WaitForPlugins(1)
	var published []resourceapi.ResourceSlice
	drivertest.Eventually(b, func() error {
		list, err := client.ResourceV1().ResourceSlices().List(b.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + s.node})
		if err != nil {
			return err
		}
		published = list.Items
		return wantDevices(published, devices)
	})
	return published
}

// allocate makes a claim that has a device of the node, in the requests that user and scheduler make.
func (s *served) allocate(b *testing.B, client kubernetes.Interface, n int, device string) *resourceapi.ResourceClaim {
	b.Helper()
	claims := client.ResourceV1().ResourceClaims("default")
	claim, err := claims.Create(b.Context(), &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", s.node, n), Finalizers: []string{resourceapi.Finalizer}},
		Spec:       resourceapi.ResourceClaimSpec{Devices: controlplane.Claim(controlplane.Want("r0", hcaClass))},
	}, metav1.CreateOptions{})
	must.NoError(b, err)
	allocated := drivertest.Claim(n, device)
	allocated.Status.Allocation.Devices.Results[0].Pool = s.node
	claim.Status.Allocation = allocated.Status.Allocation
	if claim, err = claims.UpdateStatus(b.Context(), claim, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	return claim
}

// turn prepares all claims, so many at a time, and ends them.
func (s *served) turn(b *testing.B, client kubernetes.Interface, at int) {
	b.Helper()
	gets, writes := requestsForClaims(b, client)
	before, each := usageOf(b, s.driver.PID()), make(times, len(s.claims))
	whole := took(func() { s.prepareAtOnce(b, s.claims, each, at) })
	s.cpu += usageOf(b, s.driver.PID()).processor - before.processor
	s.took, s.rates = append(s.took, each...), append(s.rates, whole/time.Duration(len(each)))
	s.unprepare(b, s.claims...)
	gets2, writes2 := requestsForClaims(b, client)
	s.gets, s.writes = s.gets+gets2-gets, s.writes+writes2-writes
}

var claimRequests = regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="resourceclaims",.*verb="([A-Z]+)",.*\} ([0-9.e+]+)$`)

// requestsForClaims are those that the API server has answered.
func requestsForClaims(b *testing.B, client kubernetes.Interface) (gets, writes float64) {
	b.Helper()
	metrics, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	must.NoError(b, err)
	for _, line := range claimRequests.FindAllSubmatch(metrics, -1) {
		n, err := strconv.ParseFloat(string(line[2]), 64)
		must.NoError(b, err)
		switch string(line[1]) {
		case "GET":
			gets += n
		case "APPLY", "PATCH", "PUT":
			writes += n
		}
	}
	return gets, writes
}
