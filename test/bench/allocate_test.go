package bench

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const (
	// simulated is how many nodes a cluster has, and looked how many of them the scheduler
	// looks at for a pod (percentageOfNodesToScore).
	simulated, looked = 1000, 420
)

// BenchmarkAllocate is the scheduler's allocator in a cluster of 1,000 nodes: what a claim for one HCA costs on
// one node ("ns/op"), what it costs before the first node, and the whole claim where the scheduler
// looks at 420 nodes. The floor are as many devices without attributes.
func BenchmarkAllocate(b *testing.B) {
	for _, devices := range []int{8, 136} {
		for _, full := range []bool{false, true} {
			b.Run(fmt.Sprintf("nodes=%d/devices=%d/full=%v", simulated, devices, full), func(b *testing.B) {
				published := slicesOf(b, devices)
				both := []*scheduled{
					newScheduled(b, "ours", published, controlplane.ChartClasses(b), full),
					newScheduled(b, "empty", bare(published), []*resourceapi.DeviceClass{controlplane.Class(hcaClass, `device.driver == "rdma.dev"`)}, full),
				}
				const rounds = 10
				for round := range rounds {
					inTurn(round, both, func(s *scheduled) { s.claim(b, round) })
				}
				for _, s := range both {
					f := s.node.figures()
					f["before-ns"] = s.before.median()
					f["claim-ns"] = s.before.median() + looked*s.node.median()
					if !full {
						f["slices/node"] = float64(len(s.slices) / simulated)
						f["JSON-bytes/node"], f["protobuf-bytes/node"] = s.bytes(b)
					}
					report(b, "driver="+s.name, f)
				}
			})
		}
	}
}

const hcaClass = "hca.rdma.dev"

// slicesOf are those that the driver publishes of a host with so many functions.
func slicesOf(b *testing.B, devices int) []*resourceapi.ResourceSlice {
	b.Helper()
	published := policy.Default().Apply(rdmatest.Discover(b, machine(b, devices)), policy.State{})
	node := &controlplane.Cluster{Node: "node", Features: controlplane.V136()}
	node.Publish(rdma.Domain, published.Slices())
	return node.Slices()
}

// bare leaves of devices their names.
func bare(published []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	var out []*resourceapi.ResourceSlice
	for _, s := range published {
		s = s.DeepCopy()
		s.Spec.SharedCounters = nil
		for i, d := range s.Spec.Devices {
			s.Spec.Devices[i] = resourceapi.Device{Name: d.Name}
		}
		out = append(out, s)
	}
	return out
}

// scheduled is a cluster whose claims are allocated.
type scheduled struct {
	name      string
	slices    []*resourceapi.ResourceSlice
	classes   []*resourceapi.DeviceClass
	allocated structured.AllocatedState
	cache     *cel.Cache
	before    times // what is done before the first node
	node      times // on each node
}

// newScheduled has as many nodes as the clusters that are simulated, all like one. Where
// it is full, claims have all devices but the last that fits on each node.
func newScheduled(b *testing.B, name string, one []*resourceapi.ResourceSlice, classes []*resourceapi.DeviceClass, full bool) *scheduled {
	b.Helper()
	s := &scheduled{name: name, classes: classes, cache: cel.NewCache(100, cel.Features{EnableConsumableCapacity: true})}
	s.allocated = structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for n := range simulated {
		pool := nodeName(n)
		for _, slice := range one {
			slice = slice.DeepCopy()
			slice.Name, slice.Spec.NodeName, slice.Spec.Pool.Name = slice.Name+pool, &pool, pool
			s.slices = append(s.slices, slice)
			for i, d := range slice.Spec.Devices {
				if full && i < len(slice.Spec.Devices)-1 {
					s.allocated.AllocatedDevices.Insert(structured.MakeDeviceID(rdma.Domain, pool, d.Name))
				}
			}
		}
	}
	return s
}

func nodeName(n int) string { return fmt.Sprintf("node%04d", n) }

// claim does for one claim what the scheduler does, on some of the nodes.
func (s *scheduled) claim(b *testing.B, round int) {
	b.Helper()
	class := s.classes[0].Name
	if s.name == "ours" {
		class = hcaClass
		if len(s.slices) > simulated { // VFs are what most of the devices are
			class = "vf.hca.rdma.dev"
		}
	}
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim", UID: "claim"},
		Spec:       resourceapi.ResourceClaimSpec{Devices: controlplane.Claim(controlplane.Want("hca", class))},
	}
	began := time.Now()
	allocator, err := structured.NewAllocator(b.Context(), controlplane.V136(), s.allocated, controlplane.Classes(s.classes), s.slices, s.cache)
	must.NoError(b, err)
	s.before = append(s.before, time.Since(began))
	for n := range 50 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName((50*round + n) % simulated)}}
		s.node = append(s.node, took(func() {
			got, err := allocator.Allocate(b.Context(), node, []*resourceapi.ResourceClaim{claim})
			if err != nil || len(got) != 1 {
				b.Fatalf("%s: node %s: %d claims allocated, error %v", s.name, node.Name, len(got), err)
			}
		}))
	}
}

// bytes are those of the slices of a node, as clients that speak JSON have them, and as etcd has them.
func (s *scheduled) bytes(b *testing.B) (inJSON, inProtobuf float64) {
	b.Helper()
	for _, slice := range s.slices[:len(s.slices)/simulated] {
		data, err := json.Marshal(slice)
		must.NoError(b, err)
		inJSON += float64(len(data))
		data, err = slice.Marshal()
		must.NoError(b, err)
		inProtobuf += float64(len(data))
	}
	return inJSON, inProtobuf
}
