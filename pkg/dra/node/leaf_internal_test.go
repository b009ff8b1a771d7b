package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/counted"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/leaf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// wired is a host with two cards: a RoCE bond of eth0 and eth1, with a VF, and an InfiniBand HCA.
type wired struct {
	*leaves
	*testing.T
	sys  *counted.FS
	snap *rdma.Snapshot
	dir  string
	now  time.Time
	mem  claimstore.Memory
	// heard are the announcements that networkd has heard, by the index of the interface.
	heard map[string]string
}

const (
	bondHCA, vfHCA, ibHCA = "pci-0000-18-00-0", "pci-0000-18-00-1", "pci-0000-3b-00-0"
)

func newWired(t *testing.T, sources ...leaf.Source) *wired {
	t.Helper()
	sys := fstest.MapFS{
		"class/net/bond0/bonding/slaves": {Data: []byte("eth0 eth1\n")},
		"class/net/bond0/ifindex":        {Data: []byte("9\n")},
		"class/net/eth0/ifindex":         {Data: []byte("3\n")},
		"class/net/eth1/ifindex":         {Data: []byte("4\n")},
		"class/infiniband/mlx5_2/ports/1/gids/0": {
			Data: []byte("fe80:0000:0000:0000:a088:c203:003f:1800\n"),
		},
	}
	eth, ib := []rdma.Port{{Number: 1, Netdev: "bond0"}}, []rdma.Port{{Number: 1}}
	w := &wired{
		T: t, sys: counted.New(sys), dir: t.TempDir(), now: time.Now(), heard: map[string]string{}, snap: &rdma.Snapshot{HCAs: []rdma.HCA{
			{
				Name: bondHCA, IBDev: "mlx5_bond_0", Function: rdma.PF, Ports: eth,
				PCI: &rdma.PCIFunction{Address: "0000:18:00.0"},
			},
			{
				Name: vfHCA, IBDev: "mlx5_1", Function: rdma.VF, PF: "0000:18:00.0", Ports: eth,
				PCI: &rdma.PCIFunction{Address: "0000:18:00.1"},
			},
			{
				Name: ibHCA, IBDev: "mlx5_2", Function: rdma.PF, Ports: ib,
				PCI: &rdma.PCIFunction{Address: "0000:3b:00.0"},
			},
		}},
	}
	store, err := claimstore.Open(drivertest.TempDir(t), claimstore.Boot{ID: "boot"})
	must.NoError(t, err)
	w.mem = store.Memory()
	w.start(sources)
	return w
}

// start makes leaves as a driver that has just started has them.
func (w *wired) start(sources []leaf.Source) {
	w.leaves = newLeaves(&Config{
		HostRoot: w.dir, NodeName: "a", LeafFiles: LeafFiles{Host: "/links.json", Site: filepath.Join(w.dir, "site.yaml")},
	})
	w.dial = func(context.Context) (net.Conn, error) {
		driver, daemon := net.Pipe()
		go func() {
			defer daemon.Close()
			_, _ = bufio.NewReader(daemon).ReadBytes(0)
			answer := strings.Join(slices.Collect(maps.Values(w.heard)), ",")
			_, _ = io.WriteString(daemon, `{"parameters":{"Neighbors":[`+answer+"]}}\x00")
		}()
		return driver, nil
	}
	w.sources.Store(&sources)
}

func (w *wired) write(name, content string) {
	w.Helper()
	path := filepath.Join(w.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		w.Fatal(err)
	}
}

// hears makes networkd hear a switch on an interface.
func (w *wired) hears(index, system string) {
	w.heard[index] = fmt.Sprintf(
		`{"InterfaceIndex":%s,"Neighbors":[{"ChassisID":%q,"SystemName":%q,"PortID":"Eth%s"}]}`, index, system, system, index)
}

// looks reads the sources after a time, and returns the leaves.
func (w *wired) looks(after time.Duration, held ...string) *leaf.View {
	w.now = w.now.Add(after)
	host := View{Host: &Host{Snapshot: w.snap}}
	if len(held) > 0 {
		device := plan.Device{Pool: "a", Device: held[0]}
		host.Plans = []*plan.Plan{{Devices: []plan.Device{device}}}
	}
	w.read(w.Context(), w.sys, host, w.mem, w.now)
	v := w.view(host)
	w.remember(w.Context(), w.mem)
	return v
}

func (w *wired) want(when string, v *leaf.View, bond, vf, ib string) {
	w.Helper()
	for hca, want := range map[string]string{bondHCA: bond, vfHCA: vf, ibHCA: ib} {
		if got := v.First(hca); got.Leaf != want {
			w.Errorf("%s: %s has leaf %q (%s), want %q", when, hca, got.Leaf, got.Why, want)
		}
	}
}

const tableHead = "apiVersion: rdma.dev/v1alpha1\nkind: LinkTable\nlinks:\n"

// TestLeafSources: each source is read where it is, in order. A bond and its VF have the leaf of the members.
func TestLeafSources(t *testing.T) {
	w := newWired(t, leaf.Networkd, leaf.File, leaf.Table)
	w.hears("3", "leaf-1")
	w.hears("4", "leaf-1")
	w.write("links.json", `{"apiVersion":"rdma.dev/v1alpha1","kind":"LinkTable","links":[{"hca":"mlx5_2","leaf":"ib-1"}]}`)
	w.write("site.yaml", tableHead+"- {node: a, hca: eth0, leaf: leaf-1}\n- {guid: '0xa088c203003f1800', leaf: ib-2}\n"+
		"- {node: b, hca: eth0, leaf: leaf-9}\n")
	v := w.looks(0)
	w.want("at first", v, "leaf-1", "leaf-1", "ib-1")
	s := v.First(bondHCA)
	test.True(t, s.Source == leaf.Networkd && s.Link.Port == "" && s.Planned.Leaf == "leaf-1",
		test.Sprintf("the bond's link is %+v", s))
	got := w.wiring()
	test.MapLen(t, 2, got, test.Sprintf("wiring is %v", got))

	w.hears("4", "leaf-2")
	v = w.looks(time.Minute)
	w.want("a member elsewhere", v, "leaf-1", "leaf-1", "ib-1")
	must.NoError(t, os.Remove(filepath.Join(w.dir, "links.json")))
	w.want("without the file for a moment", w.looks(5*time.Minute), "leaf-1", "leaf-1", "ib-1")
	w.want("the table instead of the file", w.looks(5*time.Minute), "leaf-1", "leaf-1", "ib-2")
}

// TestLeafOverRestart: an HCA in use keeps its leaf while nobody sees its interface, also when the next driver starts.
func TestLeafOverRestart(t *testing.T) {
	w := newWired(t, leaf.Networkd)
	w.hears("3", "leaf-1")
	w.want("at first", w.looks(0, bondHCA), "leaf-1", "leaf-1", "")
	clear(w.heard)
	w.want("with the interface in a pod", w.looks(time.Hour, bondHCA), "leaf-1", "leaf-1", "")
	w.start([]leaf.Source{leaf.Networkd})
	w.want("after a restart", w.looks(time.Hour, bondHCA), "leaf-1", "leaf-1", "")
	w.want("after the claim", w.looks(time.Hour), "", "", "")
}

// TestLeafOff: without a source nothing is read, and what was read is dropped when the last one goes.
func TestLeafOff(t *testing.T) {
	w := newWired(t)
	w.write("site.yaml", "no table")
	v := w.looks(0)
	test.True(t, v == nil && w.wiring() == nil && len(w.sys.Asked) == 0,
		test.Sprintf("without a source: %v, asked for %v", v, w.sys.Asked))
	w.write("site.yaml", tableHead+"- {node: a, hca: bond0, leaf: leaf-1}\n")
	w.sources.Store(&[]leaf.Source{leaf.Table})
	w.want("with a source", w.looks(time.Minute), "leaf-1", "leaf-1", "")
	w.sources.Store(&[]leaf.Source{})
	test.Nil(t, w.looks(time.Minute), test.Sprint("after the last source"))
}

// TestLeafFiles: what is wrong with a file is said, and does not change what is known.
func TestLeafFiles(t *testing.T) {
	for name, c := range map[string]struct{ site, want string }{
		"unknown field": {tableHead + "- {node: a, hca: b, leaf: c, prot: 7}\n", "prot"},
		"no kind":       {"links: []\n", "want apiVersion rdma.dev/v1alpha1"},
		"no node":       {tableHead + "- {hca: b, leaf: c}\n", "links[0]: hca needs node"},
		"too large":     {tableHead + strings.Repeat("#", 2<<20), "site's table of links"},
		"a bomb":        {strings.Repeat("- [", 1000), "site's table of links"},
	} {
		w := newWired(t, leaf.Table)
		w.write("site.yaml", c.site)
		test.StrContains(t, w.looks(time.Minute).First(bondHCA).Why, c.want, test.Sprintf("%s: the reason", name))
	}
}
