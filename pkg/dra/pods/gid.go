package pods

import (
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/internal/wake"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claims"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// A program that uses verbs without rdma_cm names the GID by its index. The index differs between pods and nodes. The
// kernel adds the GID to the table when the interface has its address, from a work queue
// (drivers/infiniband/core/roce_gid_mgmt.c). So the index is unknown when the CDI spec is written, and known when the
// runtime creates the containers.
//
// Only GIDs of IPv4 addresses are told: after a link flap a GID of an IPv6 address may have another index.

const (
	gidWait = 5 * time.Second // for all GIDs of a container, and no longer than half of what the runtime waits
	gidPoll = 5 * time.Millisecond
)

// gidIndexes returns the variables with the GID indexes of a container's interfaces. It returns none for an HCA with
// two interfaces in the pod, and replaces no variable of the container. It needs no lock.
func (s *interfaces) gidIndexes(ctx context.Context, pod nri.Pod, c nri.Container) map[string]string {
	if s.cfg.Attacher == nil || pod.Netns == "" || !hasInterface(c) {
		return nil // most containers: without a look at the records
	}
	ctx, cancel := context.WithTimeout(ctx, claims.HalfOf(ctx, gidWait))
	defer cancel()
	host := s.cfg.Node.Host()
	env := map[string]string{}
	for hca, addresses := range s.addresses(ctx, pod, c) {
		h, ok := host.Known(hca)
		name := plan.GIDIndexVariable(hca)
		if !ok || h.Protocol != rdma.ProtocolRoCE || len(addresses) != 1 || hasVariable(c, name) {
			continue
		}
		index, err := gidIndex(ctx, pod.Netns, &h, addresses[0])
		if err != nil {
			klog.FromContext(ctx).Error(err, "A container starts without the GID index of its interface",
				"pod", klog.KRef(pod.Namespace, pod.Name), "container", c.Name, "variable", name)
			continue
		}
		env[name] = strconv.Itoa(index)
	}
	return env
}

// addresses returns, by HCA, the first IPv4 address of each interface in a pod that a container's devices have. The
// variable of the CDI spec says whether the container has the device.
func (s *interfaces) addresses(ctx context.Context, pod nri.Pod, c nri.Container) map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	for _, p := range s.cfg.Claims.PlansOf(ctx, types.UID(pod.UID)) {
		for _, dev := range p.Devices {
			hca := devicename.Parse(dev.Device).HCA
			if dev.Network == nil || !hasVariable(c, plan.InterfaceVariable(hca)) {
				continue
			}
			if a := s.addressIn(pod, p.UID, dev.Device); a.IsValid() {
				out[hca] = append(out[hca], a)
			}
		}
	}
	return out
}

func (s *interfaces) addressIn(pod nri.Pod, claim types.UID, device string) (a netip.Addr) {
	state := s.cfg.Attacher.StateIn(podOf(pod), claim, device)
	if state == nil {
		return a
	}
	for _, text := range state.Addresses {
		if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is4() {
			return p.Addr()
		}
	}
	return a
}

// hasInterface reports whether a container has the variable of any interface.
func hasInterface(c nri.Container) bool {
	return slices.ContainsFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, plan.InterfaceVariable("")) })
}

func hasVariable(c nri.Container, name string) bool {
	return slices.ContainsFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// gidIndex returns the index of the RoCE v2 GID of an address in a network namespace. It waits for the GID until ctx
// ends.
func gidIndex(ctx context.Context, netns string, h *rdma.HCA, address netip.Addr) (int, error) {
	ns, err := rdmanetns.Open(netns)
	if err != nil {
		return 0, err
	}
	defer ns.Close()
	for {
		var index int
		found := false
		err := ns.Sysfs(func(sys fs.FS) (err error) { index, found, err = findGID(sys, h, address); return err })
		if err != nil || found {
			return index, err
		}
		if !wake.Sleep(ctx, gidPoll) {
			return 0, fmt.Errorf("the kernel has not added the RoCE v2 GID of %s to %s in time", address, h.IBDev)
		}
	}
}

// findGID looks for the GID of an address by its value: the interface has the same name in every pod.
func findGID(sys fs.FS, h *rdma.HCA, address netip.Addr) (index int, found bool, err error) {
	for port := range h.OwnPorts() {
		gids, err := rdma.ReadGIDs(sys, h.IBDev, port.Number)
		if err != nil {
			return 0, false, err
		}
		for _, gid := range gids {
			if gid.Type == "RoCE v2" && netip.AddrFrom16(gid.Address).Unmap() == address {
				return gid.Index, true, nil
			}
		}
	}
	return 0, false, nil
}
