// Package podresources asks the kubelet which pods of the node use which
// ResourceClaims, over its pod resources API (KEP-3695, KEP-606).
//
// The kubelet listens on a socket below its root directory. It answers from memory,
// and allows ten calls a second from all of its clients together, so a [Cache]
// stands between it and whoever asks often.
package podresources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/types"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Pod is a pod that uses a claim.
type Pod struct {
	Namespace, Name string
	// Devices are the names of the claim's devices that its containers use, sorted;
	// nil where the kubelet does not tell them apart.
	Devices []string
	// CDIDevices are the names of the CDI devices that the driver answered with for the claim, sorted; nil before it
	// has. The kubelet names claims and not their UIDs; these names tell apart claims of one name.
	CDIDevices []string
}

// Claims are the pods that use each claim, in the order of their names.
type Claims map[types.NamespacedName][]Pod

// Users returns the pods that use a claim of that name with any of the CDI devices. It also returns the pods that may
// use such a claim, because the kubelet does not name their CDI devices.
func (c Claims) Users(claim types.NamespacedName, cdiDevices []string) []Pod {
	return slices.DeleteFunc(slices.Clone(c[claim]), func(p Pod) bool {
		return len(p.CDIDevices) > 0 && !slices.ContainsFunc(p.CDIDevices,
			func(id string) bool { return slices.Contains(cdiDevices, id) })
	})
}

// timeout is for one call of the kubelet.
const timeout = 10 * time.Second

// List asks the kubelet that listens on a socket. Devices are those of one driver.
func List(ctx context.Context, socket, driver string) (Claims, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet for its pods: %w", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet for its pods at %q: %w", socket, err)
	}
	claims := Claims{}
	for _, pod := range resp.GetPodResources() {
		for _, container := range pod.GetContainers() {
			for _, r := range container.GetDynamicResources() {
				claims.add(pod, r, driver)
			}
		}
	}
	for _, pods := range claims {
		slices.SortFunc(pods, func(a, b Pod) int {
			return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
		})
	}
	return claims, nil
}

// add adds what a container uses of a claim to what others of its pod do.
func (c Claims) add(pod *podresources.PodResources, r *podresources.DynamicResource, driver string) {
	claim := types.NamespacedName{Namespace: r.GetClaimNamespace(), Name: r.GetClaimName()}
	i := slices.IndexFunc(c[claim], func(p Pod) bool {
		return p.Namespace == pod.GetNamespace() && p.Name == pod.GetName()
	})
	if i < 0 {
		i = len(c[claim])
		c[claim] = append(c[claim], Pod{Namespace: pod.GetNamespace(), Name: pod.GetName()})
	}
	p := &c[claim][i]
	for _, device := range r.GetClaimResources() {
		if device.GetDriverName() != driver {
			continue
		}
		if device.GetDeviceName() != "" {
			p.Devices = append(p.Devices, device.GetDeviceName())
		}
		for _, cdi := range device.GetCdiDevices() {
			p.CDIDevices = append(p.CDIDevices, cdi.GetName())
		}
	}
	slices.Sort(p.Devices)
	p.Devices = slices.Compact(p.Devices)
	slices.Sort(p.CDIDevices)
	p.CDIDevices = slices.Compact(p.CDIDevices)
}

// Cache keeps the kubelet's answer, be it an error, for a while.
type Cache struct {
	// Socket and Driver are as for List.
	Socket, Driver string
	// For is how old an answer may be.
	For time.Duration

	mu     sync.Mutex
	at     time.Time
	claims Claims
	err    error
}

// Claims returns what the kubelet says, or said a moment ago. A kubelet without the
// socket knows of no claim.
func (c *Cache) Claims(ctx context.Context) (Claims, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < c.For {
		return c.claims, c.err
	}
	c.claims, c.err = nil, nil
	if _, err := os.Stat(c.Socket); !errors.Is(err, fs.ErrNotExist) {
		c.claims, c.err = List(ctx, c.Socket, c.Driver)
	}
	c.at = time.Now()
	return c.claims, c.err
}
