package driver

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	healthpb "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	hostnode "github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside/published"
)

// TestHardware takes links, devices and modules away from a running driver, and brings
// them back under other names. The API server and the kubelet are told what is wrong,
// and the device that a claim holds is the same one all the time.
func TestHardware(t *testing.T) {
	n := start(t)
	for _, step := range []struct {
		name string
		do   func(*node)
	}{
		{"link", (*node).link},
		{"device removed and added", (*node).removed},
		{"other names", (*node).otherNames},
		{"renamed", (*node).renamed},
		{"modules", (*node).modules},
		{"flaps", (*node).flaps},
		{"storm", (*node).storm},
		{"netns mode", (*node).netnsMode},
	} {
		ok := t.Run(step.name, func(t *testing.T) {
			of := *n
			of.T = t
			step.do(&of)
		})
		if !ok {
			return // what comes next expects that all is well
		}
	}
}

func (n *node) sh(command string) {
	n.Helper()
	inside.Must(n.T, strings.Fields(command)...)
}

func (n *node) link() {
	n.sh("ip link set dummy0 down")
	n.Await(n.T, held, published.Tainted("port-down"))
	n.Await(n.T, free, published.Tainted())
	n.healthy(healthpb.HealthStatus_UNHEALTHY, "rxe1: port 1 is DOWN (Disabled)")
	n.event("RDMAPortDown")
	n.sh("ip link set dummy0 up")
	n.Await(n.T, held, published.Tainted())
	n.healthy(healthpb.HealthStatus_HEALTHY, "")
	n.event("RDMAPortActive")
}

// event waits for an event on the node that names the device.
func (n *node) event(reason string) {
	n.Helper()
	inside.Eventually(n.T, "event "+reason, patience, func() error {
		events, err := n.client.CoreV1().Events(metav1.NamespaceDefault).List(n.Context(),
			metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, held) {
				return nil
			}
		}
		return fmt.Errorf("events are %v", events.Items)
	})
}

func (n *node) removed() {
	n.sh("rdma link del rxe1")
	n.Await(n.T, held, published.Tainted("device-gone"))
	n.healthy(healthpb.HealthStatus_UNHEALTHY, "")
	n.Await(n.T, free, published.Tainted())
	n.sh("rdma link del rxe0")
	n.Await(n.T, free, published.Unpublished)
	n.sh("rdma link add rxe0 type rxe netdev eth0")
	n.sh("rdma link add rxe1 type rxe netdev dummy0")
	n.Await(n.T, held, published.Tainted())
	n.Await(n.T, free, published.Tainted())
	n.healthy(healthpb.HealthStatus_HEALTHY, "")
}

// otherNames gives the device that is held another name, and the uverbs number of the
// other one.
func (n *node) otherNames() {
	before := inside.Node(n.T, "infiniband_verbs", "rxe1")
	n.sh("rdma link del rxe0")
	n.sh("rdma link del rxe1")
	n.Await(n.T, held, published.Tainted("device-gone"))
	n.sh("rdma link add other0 type rxe netdev dummy0")
	n.sh("rdma link add rxe0 type rxe netdev eth0")
	n.Await(n.T, held, published.Called("ibdev", "other0"))
	n.Await(n.T, free, published.Called("ibdev", "rxe0"))
	n.spec("other0", before)
}

func (n *node) renamed() {
	n.sh("rdma dev set other0 name rxe1")
	n.Await(n.T, held, published.Called("ibdev", "rxe1"))
	n.healthy(healthpb.HealthStatus_HEALTHY, "")
}

// modules unloads the whole RDMA stack, which a socket of the driver's would prevent,
// and loads it again. The devices come back in another order.
func (n *node) modules() {
	before := inside.Node(n.T, "infiniband_verbs", "rxe1")
	n.sh("modprobe -r rdma_rxe")
	n.Await(n.T, held, published.Tainted("device-gone"))
	n.Await(n.T, free, published.Unpublished)
	n.sh("modprobe -r siw") // of the third device
	inside.UnloadCore(n.T, patience)
	n.sh("modprobe -a ib_uverbs ib_umad rdma_ucm crc32_generic rdma_rxe")
	n.sh("rdma link add rxe0 type rxe netdev eth0")
	n.sh("rdma link add rxe1 type rxe netdev dummy0")
	n.Await(n.T, held, published.Called("ibdev", "rxe1"))
	n.Await(n.T, free, published.Called("ibdev", "rxe0"))
	n.spec("rxe1", before)
}

// netnsMode switches to exclusive mode, which raises no event, and back. The device of
// the claim stays, and a new claim is refused at once.
func (n *node) netnsMode() {
	needs.Long(n, "three quarters of a minute; TestNetnsMode of events has the kernel, TestNetnsModeChanges of pkg/dra "+
		"the driver")
	late := n.claim.DeepCopy()
	n.sh("rdma system set netns exclusive")
	n.Await(n.T, held, published.Called("netnsMode", "exclusive", "draining"))
	n.Await(n.T, free, published.Unpublished)
	if err := n.prepared(late); err != nil {
		n.Errorf("the claim that has its device cannot be prepared once more: %v", err)
	}
	sys := sysfs.DirFS("/sys")
	snap, err := rdma.Discover(sys)
	if err != nil {
		n.Fatal(err)
	}
	var table bytes.Buffer
	planned := report.Planned(&hostnode.Host{Snapshot: snap, Sys: sys}, policy.Default(), nil, nil, time.Now())
	if err := report.Status(planned).Write(&table, "table"); err != nil {
		n.Fatal(err)
	}
	inside.Wants(n.T, "explain", table.String(), "network namespace mode is exclusive", "options ib_core netns_mode=1")
	inside.Wants(n.T, "the log", n.log.String(), "No RDMA device is offered to new claims")
	inside.Eventually(n.T, "back to shared mode", patience, func() error {
		if r := inside.Run("rdma", "system", "set", "netns", "shared"); r.Code != 0 {
			return fmt.Errorf("rdma system: %s", r.Out)
		}
		return nil
	})
	n.Await(n.T, held, published.Called("netnsMode", "shared"))
	n.Await(n.T, free, published.Called("netnsMode", "shared"))
}
