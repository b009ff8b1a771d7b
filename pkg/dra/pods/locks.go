package pods

import (
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/attach"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// A caller that gives devices to a pod, or takes them back, holds the lock of the pod and of each of its HCAs. So pods
// with different HCAs do not wait for each other. The order is: these locks, then the lock of moves, then the
// locks of package attach.

// podLock and hcaLock are names of locks.
func podLock(uid string) string { return "pod " + uid }
func hcaLock(hca string) string { return "HCA " + hca }

// locksOf returns the names of the locks of a pod and of the HCAs of plans.
func locksOf(pod nri.Pod, plans []*plan.Plan) []string {
	names := []string{podLock(pod.UID)}
	for _, p := range plans {
		for _, hca := range p.HCAs() {
			names = append(names, hcaLock(hca))
		}
	}
	return names
}

// locksOfRecord returns the names of the locks of an interface that a pod has.
func locksOfRecord(r attach.Record) []string {
	return []string{podLock(string(r.Pod.UID)), hcaLock(devicename.Parse(r.Device).HCA)}
}
