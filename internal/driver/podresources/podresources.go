// Package podresources asks the kubelet which pods of the node use which ResourceClaims, through its pod resources API
// (KEP-3695, KEP-606).
//
// The kubelet listens on a socket below its root directory. It answers from memory, and allows ten calls per second
// from all clients together. So frequent callers must use a [Cache].
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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Pod is a pod that uses a claim.
type Pod struct {
	Namespace, Name string
	// Devices are the names of the claim's devices that the pod's containers use, sorted; nil if the kubelet does not
	// report them.
	Devices []string
	// CDIDevices are the names of the CDI devices that the driver returned for the claim, sorted; nil before it has
	// returned any. The kubelet reports names of claims and not their UIDs. The CDI names distinguish claims that have
	// the same name.
	CDIDevices []string
}

func (p Pod) name() types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// Claims are the pods that use each claim, sorted by their names.
type Claims map[types.NamespacedName][]Pod

// Users returns the pods that use a claim of that name with any of the CDI devices. It also returns the pods that may
// use such a claim, because the kubelet does not name their CDI devices.
func (c Claims) Users(claim types.NamespacedName, cdiDevices []string) []Pod {
	return slices.DeleteFunc(slices.Clone(c[claim]), func(p Pod) bool {
		return len(p.CDIDevices) > 0 && !slices.ContainsFunc(p.CDIDevices,
			func(id string) bool { return slices.Contains(cdiDevices, id) })
	})
}

// Listing is the kubelet's list of the pods of its node.
type Listing struct {
	Claims Claims
	pods   map[types.NamespacedName]bool
}

// Uses reports whether a pod uses a claim of that name with any of the CDI devices. known is false if the kubelet does
// not list the pod, as a kubelet that has just started may not. Unlike Users, it wants a CDI device.
func (l Listing) Uses(pod, claim types.NamespacedName, cdiDevices []string) (uses, known bool) {
	for _, p := range l.Claims[claim] {
		if p.name() == pod {
			uses = slices.ContainsFunc(p.CDIDevices, func(id string) bool { return slices.Contains(cdiDevices, id) })
		}
	}
	return uses, l.pods[pod]
}

// SharedWith returns the names of the claims that the pods of a claim use, itself included.
func (l Listing) SharedWith(claim types.NamespacedName) (names []types.NamespacedName) {
	using := map[types.NamespacedName]bool{}
	for _, p := range l.Claims[claim] {
		using[p.name()] = true
	}
	for other, pods := range l.Claims {
		if slices.ContainsFunc(pods, func(p Pod) bool { return using[p.name()] }) {
			names = append(names, other)
		}
	}
	return names
}

// timeout limits one call to the kubelet.
const timeout = 10 * time.Second

// maxList bounds the kubelet's list, which the claims and devices of all pods make larger. gRPC's default is 4 MiB, which
// the 32 claims of some dozen pods can exceed. In memory, a list takes some times its size.
const maxList = 16 << 20

var errLarge = fmt.Errorf("its list is larger than %d MiB. Until it is smaller, ended claims keep their HCAs: "+
	"end pods with many containers that use claims of many devices", maxList>>20)

// List asks the kubelet that listens on a socket. The result contains only devices of the driver.
func List(ctx context.Context, socket, driver string) (Listing, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxList)))
	if err != nil {
		return Listing{}, fmt.Errorf("ask the kubelet for its pods: %w", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if status.Code(err) == codes.ResourceExhausted {
		err = fmt.Errorf("%w (%w)", errLarge, err)
	}
	if err != nil {
		return Listing{}, fmt.Errorf("ask the kubelet for its pods at %q: %w", socket, err)
	}
	claims, listed := Claims{}, map[types.NamespacedName]bool{}
	for _, pod := range resp.GetPodResources() {
		listed[types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetName()}] = true
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
	return Listing{claims, listed}, nil
}

// add merges a container's use of a claim into that of its pod.
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
	for _, names := range []*[]string{&p.Devices, &p.CDIDevices} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
}

// Cache keeps the kubelet's answer, or its error, for a limited time.
type Cache struct {
	// Socket and Driver are as for List.
	Socket, Driver string
	// For is the maximum age of an answer.
	For time.Duration

	mu     sync.Mutex
	at     time.Time
	claims Claims
	err    error
}

// Claims returns the kubelet's answer, which may be up to For old. It is safe for concurrent use. Callers must not
// change the result. The result is empty if the kubelet has no socket.
func (c *Cache) Claims(ctx context.Context) (Claims, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < c.For {
		return c.claims, c.err
	}
	c.claims, c.err = nil, nil
	if _, err := os.Stat(c.Socket); !errors.Is(err, fs.ErrNotExist) {
		var listing Listing
		listing, c.err = List(ctx, c.Socket, c.Driver)
		c.claims = listing.Claims
	}
	c.at = time.Now()
	return c.claims, c.err
}
