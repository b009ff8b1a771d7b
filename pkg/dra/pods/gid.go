package pods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claims"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
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

	gidPollMin = 5 * time.Millisecond // each look reads the whole table while the GID is missing
	gidPollMax = 100 * time.Millisecond
)

// These are the reasons why a container is not told a GID index.
var (
	errUnknownHCA     = errors.New("no claim of the pod gives it, as far as this node knows")
	errNotRoCE        = errors.New("it is no RoCE device of this host")
	errNoInterface    = errors.New("the pod has no interface with an IPv4 address from its claim")
	errManyInterfaces = errors.New("it has several interfaces in the pod")
	errDiffer         = errors.New("the HCAs of the container have different GID indexes, and a library takes one for all")
)

// gids tells containers the GID indexes of their interfaces, and reports the running containers with an old index. It
// needs no lock of Pods.
type gids struct {
	cfg    *Config
	plugin *nri.Plugin // nil for none

	mu       sync.Mutex   // held during a check
	reported map[told]int // the last reported index

	// missing has the UIDs of pods with a GID that did not come in time. Their other containers do not wait: a pod can
	// remove the address, and the runtime starts no other container while one waits.
	missing sync.Map
}

// told names an index that a container was told.
type told struct{ pod, container, hca string }

// use is an HCA of a claim that a container uses.
type use struct {
	claim  *plan.Plan
	device plan.Device
	hca    string
}

// index is the GID index of an HCA's interface in a pod, or the reason why there is none.
type index struct {
	number int
	err    error
}

// variables returns the variables with the GID indexes of a new container: those of its interfaces, and those that its
// claims ask for by a word of env. It replaces no variable of the container.
func (g *gids) variables(ctx context.Context, pod nri.Pod, c nri.Container) map[string]string {
	used := g.usedBy(ctx, pod, c)
	wanted := wantedBy(used, c)
	if len(wanted) == 0 && !hasPrefix(c, plan.InterfaceVariable("")) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, claims.HalfOf(ctx, gidWait))
	defer cancel()
	env, indexes := map[string]string{}, map[string]index{}
	for hca, addresses := range g.addresses(pod, used) {
		i, name := g.index(ctx, pod, hca, addresses), plan.GIDIndexVariable(hca)
		indexes[plan.DeviceVariable(hca)] = i
		switch {
		case i.err != nil && len(addresses) == 1 && !errors.Is(i.err, errNotRoCE):
			klog.FromContext(ctx).Error(i.err, "A container starts without the GID index of its interface",
				"pod", klog.KRef(pod.Namespace, pod.Name), "container", c.Name, "variable", name)
		case i.err == nil && !hasVariable(c, name):
			env[name] = strconv.Itoa(i.number)
		}
	}
	common, err := commonIndex(c, indexes)
	for claim, names := range wanted {
		if err != nil {
			g.report(event.GIDIndexNotSet, claim, pod, true, fmt.Sprintf("container %s starts without %s: %v. "+
				"Set it in the pod, or leave the word out of env of the claim", c.Name, strings.Join(names, ", "), err))
			continue
		}
		for _, name := range names {
			env[name] = strconv.Itoa(common)
		}
	}
	return env
}

// usedBy returns the HCAs of a container. A variable of the CDI spec says whether the container has the HCA.
func (g *gids) usedBy(ctx context.Context, pod nri.Pod, c nri.Container) (all []use) {
	if !hasPrefix(c, plan.DeviceVariable("")) {
		return nil // most containers: without a look at the records
	}
	for _, p := range g.cfg.Reservations.PlansOf(ctx, types.UID(pod.UID)) {
		for _, dev := range p.Devices {
			for _, hca := range dev.HCAs() {
				if hasVariable(c, plan.DeviceVariable(hca)) {
					all = append(all, use{p, dev, hca})
				}
			}
		}
	}
	return all
}

// wantedBy returns, by claim, the variables with a common index that the claim asks for. It leaves out variables that
// the container has.
func wantedBy(used []use, c nri.Container) map[*plan.Plan][]string {
	out := map[*plan.Plan][]string{}
	for _, u := range used {
		for _, name := range u.device.Settings.GIDIndexVariables() {
			if !hasVariable(c, name) && !slices.Contains(out[u.claim], name) {
				out[u.claim] = append(out[u.claim], name)
			}
		}
	}
	return out
}

// addresses returns, by HCA, the first IPv4 address of each of its interfaces in the pod.
func (g *gids) addresses(pod nri.Pod, used []use) map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	for _, u := range used {
		out[u.hca] = append(out[u.hca], g.addressesOf(pod, u)...)
	}
	return out
}

func (g *gids) addressesOf(pod nri.Pod, u use) []netip.Addr {
	if g.cfg.Attacher == nil || pod.Netns == "" || u.device.Network == nil {
		return nil
	}
	state := g.cfg.Attacher.StateIn(podOf(pod), u.claim.UID, u.device.Device)
	if state == nil {
		return nil
	}
	for _, text := range state.Addresses {
		if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is4() {
			return []netip.Addr{p.Addr()}
		}
	}
	return nil
}

// index returns the index of the GID of an HCA's interface. It waits for the GID until ctx ends, once for each pod.
func (g *gids) index(ctx context.Context, pod nri.Pod, hca string, addresses []netip.Addr) index {
	h, ok := g.cfg.Node.Host().Known(hca)
	switch {
	case !ok, h.Protocol != rdma.ProtocolRoCE:
		return index{err: errNotRoCE}
	case len(addresses) == 0:
		return index{err: errNoInterface}
	case len(addresses) > 1:
		return index{err: errManyInterfaces}
	}
	for poll := loop.NewBackoff(gidPollMin, gidPollMax); ; {
		number, found, err := g.look(pod.Netns, &h, addresses[0], nil)
		if err != nil || found {
			return index{number, err}
		}
		if _, missing := g.missing.Load(pod.UID); missing || !loop.Sleep(ctx, poll.Next()) {
			g.missing.Store(pod.UID, true)
			return index{err: fmt.Errorf("the kernel has not added the RoCE v2 GID of %s to %s in time", addresses[0], h.IBDev)}
		}
	}
}

// forget forgets a pod that has ended.
func (g *gids) forget(pod nri.Pod) { g.missing.Delete(pod.UID) }

// look returns the present index of the GID of an address in a network namespace. If the GID has the expected index,
// look reads no other entry. expected is nil without an expectation.
func (g *gids) look(
	netns string, h *rdma.HCA, address netip.Addr, expected *int,
) (number int, found bool, err error) {
	err = g.cfg.Sysfs(netns, func(sys fs.FS) (err error) {
		if expected != nil && hasGID(sys, h, address, *expected) {
			number, found = *expected, true
			return nil
		}
		number, found, err = findGID(sys, h, address)
		return err
	})
	return number, found, err
}

// hasGID reports whether the GID of an address has an index.
func hasGID(sys fs.FS, h *rdma.HCA, address netip.Addr, number int) bool {
	for port := range h.OwnPorts() {
		if gid, err := rdma.ReadGID(sys, h.IBDev, port.Number, number); err == nil && isOf(gid, address) {
			return true
		}
	}
	return false
}

// findGID looks for the GID of an address by its value: the interface has the same name in every pod.
func findGID(sys fs.FS, h *rdma.HCA, address netip.Addr) (number int, found bool, err error) {
	matches := func(gid rdma.GID) bool { return isOf(gid, address) }
	for port := range h.OwnPorts() {
		if gid, ok, err := rdma.FindGID(sys, h.IBDev, port.Number, matches); ok || err != nil {
			return gid.Index, ok, err
		}
	}
	return 0, false, nil
}

func isOf(gid rdma.GID, address netip.Addr) bool {
	return gid.Type == "RoCE v2" && netip.AddrFrom16(gid.Address).Unmap() == address
}

// sysfsOf calls a function with the sysfs of a network namespace.
func sysfsOf(netns string, f func(fs.FS) error) error {
	ns, err := rdmanetns.Open(netns)
	if err != nil {
		return err
	}
	defer ns.Close()
	return ns.Sysfs(f)
}

// commonIndex returns the index that all HCAs of a container have. The CDI spec gives the container a variable for each
// HCA. indexes maps the variables to what the driver knows: the index of the HCA, or why there is none.
func commonIndex(c nri.Container, indexes map[string]index) (common int, err error) {
	first := ""
	for _, v := range c.Env {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, plan.DeviceVariable("")) {
			continue
		}
		i, ok := indexes[name]
		switch {
		case !ok: // the name may be a user's, so it is in no message
			return 0, fmt.Errorf("an HCA of the container has no GID index: %w", errUnknownHCA)
		case i.err != nil:
			return 0, fmt.Errorf("the HCA of %s has no GID index: %w", name, i.err)
		case first != "" && i.number != common:
			return 0, fmt.Errorf("%w: %s has %d, %s has %d", errDiffer, first, common, name, i.number)
		}
		first, common = name, i.number
	}
	return common, nil
}

// check reports the containers that were told another index than their GID has: the link went down and up, or somebody
// set the address again. The kernel announces no such change, so the driver looks whenever it sweeps. check reports
// each change once.
func (g *gids) check(ctx context.Context) {
	if g.plugin == nil || g.cfg.Attacher == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	sandboxes, known := g.plugin.Sandboxes()
	if !known {
		return
	}
	seen := map[told]bool{}
	for _, s := range sandboxes {
		for _, c := range s.Containers {
			if s.Netns != "" && hasPrefix(c, plan.GIDIndexVariable("")) {
				g.checkContainer(ctx, s.Pod, c, seen)
			}
		}
	}
	maps.DeleteFunc(g.reported, func(t told, _ int) bool { return !seen[t] })
}

// checkContainer adds what it has looked at to seen.
func (g *gids) checkContainer(ctx context.Context, pod nri.Pod, c nri.Container, seen map[told]bool) {
	used := g.usedBy(ctx, pod, c)
	all := g.addresses(pod, used)
	for _, u := range used {
		what, addresses := told{pod.UID, c.Name, u.hca}, all[u.hca]
		h, ok := g.cfg.Node.Host().Known(u.hca)
		was, err := strconv.Atoi(valueOf(c, plan.GIDIndexVariable(u.hca))) // a user may have set it
		if !ok || err != nil || len(addresses) != 1 || seen[what] {
			continue
		}
		seen[what] = true
		now, found, err := g.look(pod.Netns, &h, addresses[0], &was)
		last, reported := g.reported[what]
		switch {
		case err != nil || !found: // the pod has ended, or the link is down: the GID may come back
		case now == was:
			delete(g.reported, what)
		case !reported || last != now:
			g.reported[what] = now
			g.report(event.GIDIndexChanged, u.claim, pod, false, fmt.Sprintf("container %s has %s=%d, and the GID of %s "+
				"has index %d on %s now: programs that name it by the old index fail, or use the GID of another pod. "+
				"Restart the container: it is told the new index",
				c.Name, plan.GIDIndexVariable(u.hca), was, addresses[0], now, h.IBDev))
		}
	}
}

// report records an event of a claim and one of its pods. start means that the start of a container is the cause.
func (g *gids) report(reason event.Reason, claim *plan.Plan, pod nri.Pod, start bool, message string) {
	e := event.OfPod(claim, pod.Name, types.UID(pod.UID), reason, message)
	e.Start = start
	g.cfg.Report.Record(e)
}

func hasPrefix(c nri.Container, prefix string) bool {
	return slices.ContainsFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, prefix) })
}

func hasVariable(c nri.Container, name string) bool { return hasPrefix(c, name+"=") }

// valueOf returns the value of a variable, "" if the container does not have it. The last one counts.
func valueOf(c nri.Container, name string) (value string) {
	for _, v := range c.Env {
		if text, ok := strings.CutPrefix(v, name+"="); ok {
			value = text
		}
	}
	return value
}
