package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/networkd"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/leaf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// LeafFiles are the files that say to which leaf switches HCAs are connected.
type LeafFiles struct {
	// Host is the file that the host keeps for itself, below HostRoot.
	Host string
	// Site is the table of the site, "" for none.
	Site string
}

// leafTime is how long a reading waits for the answer of networkd.
const leafTime = 2 * time.Second

// leaves reads and keeps the leaf switches of HCAs. Start and then Run use it, but for the atomic values.
type leaves struct {
	files   LeafFiles
	node    string
	host    fs.ReadLinkFS // the root of the host
	dial    func(context.Context) (net.Conn, error)
	sources atomic.Pointer[[]leaf.Source]
	labels  atomic.Pointer[map[string]string]
	wake    loop.Signal // sources or labels have changed
	model   *leaf.Model // nil while no source is on
	faults  loop.Errors
}

func newLeaves(cfg *Config) *leaves {
	socket := filepath.Join(cfg.HostRoot, networkd.Dir, networkd.Socket)
	return &leaves{
		files: cfg.LeafFiles, node: cfg.NodeName, host: hostfs.DirFS(cfg.HostRoot), wake: loop.NewSignal(),
		dial: func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", socket) },
	}
}

// setSources sets the sources of leaf switches, in order; without one, nothing is read. They are read at once.
func (l *leaves) setSources(sources []leaf.Source) {
	// The first call comes before Start.
	if before := l.sources.Swap(&sources); before != nil && !slices.Equal(*before, sources) {
		l.wake.Set()
	}
}

// SetLabels sets the labels of the node, which may name leaf switches.
func (n *Node) SetLabels(labels map[string]string) {
	if labels == nil {
		labels = map[string]string{}
	}
	before := n.leaves.labels.Swap(&labels)
	if len(n.leaves.on()) > 0 && (before == nil || !maps.Equal(*before, labels)) {
		n.leaves.wake.Set()
	}
}

// on returns the sources, nil for none.
func (l *leaves) on() []leaf.Source {
	if sources := l.sources.Load(); sources != nil {
		return *sources
	}
	return nil
}

// look reads the sources that are on.
func (l *leaves) look(ctx context.Context, n *Node) {
	view := View{Host: n.Host(), Plans: plansOf(ctx, n.cfg.Store)}
	l.read(ctx, n.sys, view, n.cfg.Store.Memory(), n.cfg.Now())
}

func (l *leaves) read(
	ctx context.Context, sys fs.ReadLinkFS, host View, memory claimstore.Memory, now time.Time,
) {
	sources := l.on()
	if len(sources) == 0 {
		l.model = nil
		return
	}
	if l.model == nil {
		l.model = leaf.New()
		var past []leaf.Past
		_, err := memory.Recall(memoryLeaves, &past)
		if err != nil {
			klog.FromContext(ctx).Error(err, "The leaf switches that an earlier driver knew are lost")
		}
		l.model.Recall(past, now)
	}
	in := leaf.Inputs{Now: now, Node: l.node}
	if labels := l.labels.Load(); labels != nil {
		in.Labels = *labels
	}
	in.File, in.FileErr = l.hostFile(sources)
	in.Table, in.TableErr = l.siteTable()
	ports := portsOf(sys, host.Snapshot)
	hasInterface := func(p leaf.Port) bool { return len(p.Interfaces) > 0 }
	if slices.Contains(sources, leaf.Networkd) && slices.ContainsFunc(ports, hasInterface) {
		in.Heard, in.HeardErr = l.heard(ctx)
	}
	if err := errors.Join(in.FileErr, in.TableErr, in.HeardErr); l.faults.IsNew("leaves", err) {
		klog.FromContext(ctx).Error(err, "A source of leaf switches is not read, what it said before stays for an hour")
	}
	l.model.Observe(leaf.Resolve(ports, sources, in), host.held(), now)
}

func (l *leaves) heard(ctx context.Context) (map[int][]networkd.Neighbor, error) {
	ctx, cancel := context.WithTimeout(ctx, leafTime)
	defer cancel()
	return networkd.Read(ctx, l.dial)
}

// hostFile reads the host's file, if it is a source. A file without `time` gets its modification time.
func (l *leaves) hostFile(sources []leaf.Source) (*v1alpha1.LinkTable, error) {
	if !slices.Contains(sources, leaf.File) {
		return nil, nil
	}
	name := strings.TrimPrefix(l.files.Host, "/")
	info, err := hostfs.Stat(l.host, name)
	var data []byte
	if err == nil {
		data, err = hostfs.ReadFile(l.host, name, int64(yamlread.Table.Size))
	}
	if err != nil {
		return nil, fmt.Errorf("read the host's file of links: %w", hostfs.OnHost("/"+name, err))
	}
	table, err := parse(data, false)
	if err != nil {
		return nil, fmt.Errorf("read the host's file of links /%s: %w", name, err)
	}
	if table.Time.IsZero() {
		table.Time = info.ModTime()
	}
	return table, nil
}

// siteTable reads the site's table, if there is one: it is a source, or the plan that other sources are compared with.
func (l *leaves) siteTable() (*v1alpha1.LinkTable, error) {
	if l.files.Site == "" {
		return nil, nil
	}
	data, err := hostfs.ReadLocal(l.files.Site, int64(yamlread.Table.Size))
	if err != nil {
		return nil, fmt.Errorf("read the site's table of links: %w; "+
			"create the ConfigMap that the chart value linkTable names, with the key links.yaml", err)
	}
	table, err := parse(data, true)
	if err != nil {
		return nil, fmt.Errorf("read the site's table of links %q: %w", l.files.Site, err)
	}
	return table, nil
}

func parse(data []byte, ofSite bool) (*v1alpha1.LinkTable, error) {
	table := new(v1alpha1.LinkTable)
	if err := yamlread.Table.Decode(data, table); err != nil {
		return nil, yamlread.PositionsOf(data).Explain(err)
	}
	if err := table.Check(ofSite); err != nil {
		return nil, err
	}
	return table, nil
}

// portsOf returns the physical ports of the host.
func portsOf(sys fs.ReadLinkFS, snap *rdma.Snapshot) (out []leaf.Port) {
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		if !leaf.IsPhysical(h) {
			continue
		}
		first := true
		for p := range h.OwnPorts() {
			port := leaf.Port{
				PortID: health.PortID{Device: h.Name, Port: p.Number}, First: first, IBDev: h.IBDev, Netdev: p.Netdev,
				GUIDs: guidsOf(sys, h, p.Number, first), Interfaces: interfacesOf(sys, p.Netdev),
			}
			out, first = append(out, port), false
		}
	}
	return out
}

// guidsOf returns the GUIDs that name a port: that of the port, which is the lower half of its first GID, and that of
// the node for the first port.
func guidsOf(sys fs.FS, h *rdma.HCA, port int, first bool) (out []rdma.GUID) {
	if gid, err := rdma.ReadGID(sys, h.IBDev, port, 0); err == nil {
		out = append(out, rdma.GUID(binary.BigEndian.Uint64(gid.Address[8:])))
	}
	if first && h.NodeGUID != 0 {
		out = append(out, h.NodeGUID)
	}
	return out
}

// interfacesOf returns an interface, or the members of a bond.
func interfacesOf(sys fs.FS, netdev string) (out []leaf.Interface) {
	if netdev == "" {
		return nil
	}
	names := rdma.BondMembers(sys, netdev)
	if len(names) == 0 {
		names = []string{netdev}
	}
	for _, name := range names {
		data, err := fs.ReadFile(sys, path.Join("class/net", name, "ifindex"))
		if err != nil {
			continue
		}
		if index, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
			out = append(out, leaf.Interface{Name: name, Index: index})
		}
	}
	return out
}

// view returns the leaves of a host, nil while no source is on.
func (l *leaves) view(host View) *leaf.View {
	if l.model == nil {
		return nil
	}
	return l.model.View(host.With(host.Missing()...))
}

// wiring returns what is planned and seen, nil while no source is on.
func (l *leaves) wiring() map[health.PortID]health.Wiring {
	if l.model == nil {
		return nil
	}
	return l.model.Wiring()
}

// remember stores the leaves for the next driver, if one changed.
func (l *leaves) remember(ctx context.Context, m claimstore.Memory) {
	if l.model == nil {
		return
	}
	past, changed := l.model.Past()
	if !changed {
		return
	}
	if err := m.Remember(memoryLeaves, past); err != nil {
		klog.FromContext(ctx).Error(err, "After a restart the driver will not know the leaf switches of HCAs in use")
	}
}
