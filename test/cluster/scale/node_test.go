package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/replay"
)

// host is the hardware of several nodes that are alike in all, failed links among it.
type host struct {
	*drivertest.Host
	hcas []rdma.HCA
}

// model has nine HCAs in RoCE mode: the node of the table in docs/dev/benchmarks.md.
const model = "hgx-h100"

func newHost(t testing.TB) *host {
	t.Helper()
	return &host{drivertest.NewHost(t, model), rdmatest.Snapshot(t, model).HCAs}
}

// set gives the first so many HCAs of the host another state of their links.
func (h *host) set(t testing.TB, n int, up bool) {
	t.Helper()
	state, physical := "1: DOWN", "3: Disabled"
	if up {
		state, physical = "4: ACTIVE", "5: LinkUp"
	}
	for _, hca := range h.hcas[:n] {
		rdmatest.SetPort(t, h.Root, hca.IBDev, state, physical)
	}
}

// node is a node whose driver runs in this process.
type node struct {
	name   string
	host   *host
	worker *drivertest.Worker
	links  *replay.Links // of the running driver
	ledger *ledger
	config dra.Config
	rest   *rest.Config
	claims []*resourceapi.ResourceClaim

	log    drivertest.Log
	cancel context.CancelFunc // asks the driver to stop
	done   chan error
}

func newNode(s *server, name string, h *host, all *pulse) *node {
	s.Helper()
	return &node{
		name: name, host: h, worker: drivertest.WorkerOf(s, h.Host, drivertest.NewKubelet(s)),
		ledger: &ledger{requests: map[string]int{}, all: all},
	}
}

// prepare makes what the driver needs to start: its Node, and a token of its pod.
func (n *node) prepare(ctx context.Context, s *server) error {
	uid, token, err := s.driverPod(ctx, n.name)
	if err != nil {
		return err
	}
	file := filepath.Join(n.worker.Dir, "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		return err
	}
	// As newClient of cmd/dra-driver has it.
	n.rest = &rest.Config{
		Host: s.config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: s.config.CAData, CAFile: s.config.CAFile},
		BearerTokenFile: file, QPS: -1, UserAgent: "dra-driver-rdma/bench", Dial: n.ledger.dial,
		ContentConfig: rest.ContentConfig{
			ContentType:        runtime.ContentTypeProtobuf,
			AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		},
		WrapTransport: n.ledger.wrap,
	}
	n.config = dra.Config{
		NodeName: n.name, PodUID: types.UID(uid), HostRoot: n.host.Root, KubeletDir: n.worker.Dir,
		StateDir: n.worker.StateDir, CDIDir: n.worker.CDIDir, Site: plan.DefaultSite(),
		ClaimStatus: true, ClaimEvents: true, DeviceMetadata: true,
	}
	return nil
}

// start starts the driver.
func (n *node) start() error {
	client, troubles, err := apiclient.New(n.rest)
	if err != nil {
		return err
	}
	n.links = replay.New()
	config := n.config
	config.Events, config.Troubles = n.links.Events(), troubles
	driver, err := dra.New(config, client)
	if err != nil {
		return fmt.Errorf("start the driver of %s: %w", n.name, err)
	}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&n.log)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	n.cancel, n.done = cancel, make(chan error, 1)
	go func() { n.done <- driver.Run(ctx) }()
	return nil
}

// stop stops the driver, which must end without an error.
func (n *node) stop() error {
	if n.cancel == nil {
		return nil
	}
	n.cancel()
	n.cancel = nil
	if err := <-n.done; err != nil {
		return fmt.Errorf("the driver of %s ended with: %w", n.name, err)
	}
	return nil
}

// flap tells the driver that the links of the first HCAs have another state, as host.set gave it to them.
func (n *node) flap(hcas int, up bool) {
	for i, hca := range n.host.hcas[:hcas] {
		n.links.Change(uint32(10+i), hca.Ports[0].Netdev, up)
	}
}

// allocate makes a claim for each device of the node, in the requests of users and of the scheduler. Pods may share it.
func (n *node) allocate(ctx context.Context, s *server, devices []string) error {
	slices.Sort(devices)
	for i, device := range devices {
		claims := s.client.ResourceV1().ResourceClaims(usersNamespace)
		pod := fmt.Sprintf("%s-pod-%d", n.name, i)
		claim, err := claims.Create(ctx, &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", n.name, i), Finalizers: []string{resourceapi.Finalizer}},
			Spec:       resourceapi.ResourceClaimSpec{Devices: controlplane.Claim(controlplane.Want("r0", "hca.rdma.dev"))},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		allocated := drivertest.ReservedFor(drivertest.Claim(i, device), pod)
		allocated.Status.Allocation.Devices.Results[0].Pool = n.name
		allocated.Status.Allocation.NodeSelector = n.selector()
		claim.Status = allocated.Status
		if claim, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
		n.claims = append(n.claims, claim)
	}
	return nil
}

// selector is that of the scheduler for devices of the node. Without it, the API server does not take the driver for
// one of the claim's node.
func (n *node) selector() *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{n.name}},
		},
	}}}
}

// startPods has the kubelet start a pod for each claim.
func (n *node) startPods(ctx context.Context) error {
	for i, c := range n.claims {
		n.worker.AddPod(fmt.Sprintf("%s-pod-%d", n.name, i), c)
		response, err := n.worker.Prepare(ctx, c)
		if err == nil {
			_, err = drivertest.Devices(response, c)
		}
		if err != nil {
			return fmt.Errorf("prepare claim %s: %w", c.Name, err)
		}
	}
	return nil
}

// restartKubelet does what a kubelet does that starts: it deletes the slices of the node and registers the driver.
func (n *node) restartKubelet(ctx context.Context, s *server) error {
	err := s.client.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + n.name})
	if err != nil {
		return err
	}
	n.worker.Restart()
	return nil
}

// registered waits until the kubelet has registered the driver.
func (n *node) registered() error {
	return drivertest.Await(5*time.Minute, func() error {
		if len(n.worker.Sockets()) == 0 {
			return errors.New("the kubelet of " + n.name + " has registered no driver")
		}
		return nil
	})
}
