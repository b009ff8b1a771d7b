package driver

import (
	"fmt"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside/published"
)

// flaps measures how soon a watch of the API server shows that a link failed, and came
// back: from the system call that the kernel's event is made in. The floor is an update
// that changes nothing, in between.
func (n *node) flaps() {
	needs.Long(n, "it measures; the step link shows that a link that fails is published")
	link, err := netlink.LinkByName("dummy0")
	if err != nil {
		n.Fatal(err)
	}
	var down, up, empty []time.Duration
	const flaps = 200
	for range flaps {
		empty = append(empty, n.emptyPut())
		down = append(down, n.flap(link, netlink.LinkSetDown, published.Tainted("port-down")))
		up = append(up, n.flap(link, netlink.LinkSetUp, published.Tainted()))
	}
	n.Logf("%d flaps: taint %s, its end %s; an empty PUT %s; ratio of medians %.1f and %.1f",
		flaps, times(down), times(up), times(empty), ratio(down, empty), ratio(up, empty))
}

// flap changes the link, and returns how long it took until that was known.
func (n *node) flap(link netlink.Link, set func(netlink.Link) error, so func(*resourceapi.Device) error) time.Duration {
	n.Helper()
	n.rest()
	began := time.Now()
	if err := set(link); err != nil {
		n.Fatal(err)
	}
	return n.Await(n.T, held, so).Sub(began)
}

// rest waits until nothing was written for a while: changes that follow each other
// closely are taken for a storm.
func (n *node) rest() {
	for {
		select {
		case <-n.Changed():
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}

// emptyPut updates the slice of the device to what it is, and returns how long that took.
// A try that meets a change of the driver does not count.
func (n *node) emptyPut() time.Duration {
	n.Helper()
	for {
		n.rest()
		slice := n.Slice(held)
		began := time.Now()
		_, err := n.client.ResourceV1().ResourceSlices().Update(n.Context(), slice, metav1.UpdateOptions{})
		if err == nil {
			return time.Since(began)
		}
		if !apierrors.IsConflict(err) {
			n.Fatal(err)
		}
	}
}

// storm has the link fail and come back a thousand times as fast as it can, and fail at
// last. What is published then is right.
func (n *node) storm() {
	link, err := netlink.LinkByName("dummy0")
	if err != nil {
		n.Fatal(err)
	}
	began := time.Now()
	for range 1000 {
		if err := netlink.LinkSetUp(link); err != nil {
			n.Fatal(err)
		}
		if err := netlink.LinkSetDown(link); err != nil {
			n.Fatal(err)
		}
	}
	n.Logf("1000 flaps in %v", time.Since(began).Round(time.Millisecond))
	n.rest()
	n.Await(n.T, held, published.Tainted("port-down"))
	if err := netlink.LinkSetUp(link); err != nil {
		n.Fatal(err)
	}
	n.Await(n.T, held, published.Tainted())
}

func sorted(d []time.Duration) []time.Duration { return slices.Sorted(slices.Values(d)) }

// times says p50 and p99.
func times(d []time.Duration) string {
	d = sorted(d)
	return fmt.Sprintf("%v (p99 %v)", d[len(d)/2].Round(time.Millisecond/10),
		d[(len(d)*99+99)/100-1].Round(time.Millisecond/10))
}

func ratio(a, b []time.Duration) float64 {
	return float64(sorted(a)[len(a)/2]) / float64(sorted(b)[len(b)/2])
}
