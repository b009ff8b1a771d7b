package policies

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/publisher"
)

// absurdGeneration: the API server takes a slice of the last generation in the pool of a driver, and the driver is not
// stopped.
func (r *reach) absurdGeneration(t *testing.T) {
	const driverName, node = "rdma.dev", "node-a"
	driver, err := kubernetes.NewForConfig(r.configs["driver"])
	must.NoError(t, err)
	admin, err := kubernetes.NewForConfig(r.configs["admin"])
	must.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	poison, err := admin.ResourceV1().ResourceSlices().Get(ctx, "own", metav1.GetOptions{})
	must.NoError(t, err)
	done, devices := make(chan struct{}), poison.Spec.Devices
	p := publisher.New(publisher.Config{
		Client: driver, Driver: driverName, Node: node, Report: func(_ context.Context, err error) { t.Log(err) },
	})
	go func() { defer close(done); p.Run(ctx) }()
	defer func() { cancel(); <-done }()
	whole := func(want int) error {
		list, err := admin.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
			FieldSelector: "spec.nodeName=" + node + ",spec.driver=" + driverName,
		})
		if err != nil {
			return err
		}
		for _, s := range list.Items {
			wrong := len(s.Spec.Devices) != want || s.Spec.Pool.Name != node || s.Spec.Pool.Generation > 1000
			if s.DeletionTimestamp == nil && wrong {
				return fmt.Errorf("published is %s of %+v with %d devices", s.Name, s.Spec.Pool, len(s.Spec.Devices))
			}
		}
		if len(list.Items) == 0 {
			return fmt.Errorf("nothing is published")
		}
		return nil
	}
	p.Publish([]resourceslice.Slice{{Devices: devices}})
	drivertest.Eventually(t, func() error { return whole(1) }) // the misplaced slice is gone then
	poison.ObjectMeta = metav1.ObjectMeta{Name: "00000-poison"}
	poison.Spec.Pool.Generation = math.MaxInt64
	_, err = admin.ResourceV1().ResourceSlices().Create(ctx, poison, metav1.CreateOptions{})
	must.NoError(t, err)
	drivertest.Eventually(t, func() error { return whole(1) })
	second := devices[0].DeepCopy()
	second.Name = "hca-1"
	p.Publish([]resourceslice.Slice{{Devices: []resourceapi.Device{devices[0], *second}}})
	drivertest.Eventually(t, func() error { return whole(2) })
}
