package latency

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

const (
	// atOnce makes a change of a link one of the slice without delay.
	atOnce = "health: {downAfter: 0s, upAfter: 0s}\npublishInterval: 0s"
	// flaps are measured on each host.
	flaps = 30
	// pace is the time between two changes of a link, longer than what makes a storm.
	pace = 100 * time.Millisecond
)

// result is what the flaps of one host cost.
type result struct {
	known   []time.Duration // from the event to the taint that a watch shows
	decided []time.Duration // to the beginning of the request
	written []time.Duration // the request
	empty   []time.Duration // a request that changes nothing
	bare    []time.Duration // the same change of the same slice by a client that does nothing else
	writes  int
}

func median(d []time.Duration) time.Duration { return slices.Sorted(slices.Values(d))[len(d)/2] }

// BenchmarkLatency is of the report on what the driver costs (test/bench): from the event to the taint that a watch
// shows, over a request that changes nothing, on a host with 1,016 HCAs as on one with 8.
func BenchmarkLatency(b *testing.B) {
	klog.LogToStderr(false)
	control, _ := testbed.ControlPlane(b, cluster.Options{Progress: os.Stderr})
	for _, functions := range []int{8, 64, 1016} {
		b.Run(fmt.Sprintf("devices=%d", functions), func(b *testing.B) {
			n := start(b, control, functions)
			r := measure(n)
			report(b, "driver=ours", r.known, map[string]float64{
				"watched-B/write": float64(n.last.slice.Size()), // what each watch of all slices is sent
				"decided-ns":      float64(median(r.decided)), "written-ns": float64(median(r.written)),
				"bare-ns": float64(median(r.bare)), "writes/flap": float64(r.writes) / flaps,
			})
			report(b, "driver=empty", r.empty, nil)
		})
	}
}

// report gives what was measured to benchstat.
func report(b *testing.B, name string, took []time.Duration, more map[string]float64) {
	b.Run(name, func(b *testing.B) {
		for range b.N { // was measured before
		}
		sorted := slices.Sorted(slices.Values(took))
		b.ReportMetric(float64(median(took)), "ns/op")
		b.ReportMetric(float64(sorted[len(sorted)*99/100]), "p99-ns")
		for unit, value := range more {
			b.ReportMetric(value, unit)
		}
	})
}

// measure lets the link of a node fail and come back.
func measure(n *node) *result {
	n.Helper()
	r := &result{}
	tick := time.NewTicker(pace)
	defer tick.Stop()
	n.writes.take()
	for range flaps {
		r.empty = append(r.empty, n.emptyPut())
		r.bare = append(r.bare, n.barePut())
		for _, up := range []bool{false, true} {
			<-tick.C
			heard := n.set(up)
			known := n.await(func(d *resourceapi.Device) bool { return len(d.Taints) == 0 == up })
			writes := n.writes.take()
			r.writes += len(writes)
			r.known = append(r.known, known.Sub(heard))
			r.decided = append(r.decided, writes[0].start.Sub(heard))
			r.written = append(r.written, writes[0].end.Sub(writes[0].start))
		}
	}
	return r
}

// emptyPut updates the slice of the port to what it is.
func (n *node) emptyPut() time.Duration {
	n.Helper()
	began := time.Now()
	after, err := n.client.ResourceV1().ResourceSlices().Update(n.Context(), n.last.slice, metav1.UpdateOptions{})
	took := time.Since(began)
	must.NoError(n, err)
	if after.ResourceVersion != n.last.slice.ResourceVersion {
		n.Error("an empty update changed the slice")
	}
	return took
}

// barePut changes a taint in a slice like that of the port.
func (n *node) barePut() time.Duration {
	n.Helper()
	client := n.client.ResourceV1().ResourceSlices()
	if n.twin == nil {
		twin := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: n.name + "-twin"}}
		n.last.slice.Spec.DeepCopyInto(&twin.Spec)
		twin.Spec.Driver, twin.Spec.Pool.Name, twin.Spec.NodeName = "twin.example.com", n.name+"-twin", new(n.name+"-twin")
		var err error
		if n.twin, err = client.Create(n.Context(), twin, metav1.CreateOptions{}); err != nil {
			n.Fatal(err)
		}
	}
	d := device(n.twin, n.port.Name)
	if d.Taints == nil {
		d.Taints = []resourceapi.DeviceTaint{{Key: "rdma.dev/port-down", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	} else {
		d.Taints = nil
	}
	began := time.Now()
	after, err := client.Update(n.Context(), n.twin, metav1.UpdateOptions{})
	took := time.Since(began)
	must.NoError(n, err)
	n.twin = after
	return took
}
