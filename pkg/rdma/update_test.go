package rdma_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestUpdateEqualsDiscover: after any change that was named, an update gives what a
// look at the whole host gives, and leaves the snapshots before it as they were.
func TestUpdateEqualsDiscover(t *testing.T) {
	steps, seeds, ofLarge := 30, uint64(2), 4
	switch {
	case testing.Short():
		steps, seeds = 15, 1
	case os.Getenv("TEST_LONG") != "":
		seeds, ofLarge = 8, 16
	}
	for _, name := range fixture.Names() {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
				t.Parallel()
				follow(t, extract(t, name), steps, seed)
			})
		}
	}
	t.Run("large", func(t *testing.T) {
		t.Parallel()
		follow(t, synthesize(t, 1016), ofLarge, 1)
	})
}

// follow changes a host in random steps and compares after each.
func follow(t *testing.T, root string, steps int, seed uint64) {
	sys := sysfs.DirFS(filepath.Join(root, "sys"))
	s := rdma.NewScanner(sys)
	host := &mutableHost{t: t, dir: filepath.Join(root, "sys"), sys: sys, scanner: s, rand: rand.New(rand.NewPCG(seed, 1))}
	last, err := s.Scan()
	must.NoError(t, err)
	last = withVPD(t, s, sys, last)
	encoded := encode(t, last)
	for step := range steps {
		before, copied := last, encoded
		var changes rdma.Changes
		var log []string
		for range 1 + host.rand.IntN(3) {
			what, c := host.change()
			log = append(log, what)
			changes.Merge(c)
		}
		last, err = s.Update(changes)
		must.NoError(t, err)
		last = withVPD(t, s, sys, last)
		whole, err := rdma.Discover(sys)
		must.NoError(t, err)
		encoded = encode(t, last)
		must.True(t, bytes.Equal(encode(t, whole), encoded),
			must.Sprintf("step %d, %s, named %s: Update differs from Discover", step, strings.Join(log, "; "), changes))
		must.True(t, bytes.Equal(copied, encode(t, before)),
			must.Sprintf("step %d, %s: the snapshot before was changed", step, strings.Join(log, "; ")))
		checkShared(t, before, last)
	}
}

// withVPD reads the VPD that a scanner has noted, as Discover does. It returns the snapshot with it.
func withVPD(t *testing.T, s *rdma.Scanner, sys fs.FS, snap *rdma.Snapshot) *rdma.Snapshot {
	t.Helper()
	if files := s.UnreadVPD(); len(files) > 0 {
		return s.Learn(rdma.ReadVPD(t.Context(), sys, files))
	}
	return snap
}

// checkShared: what Compare finds equal shares its memory, and it finds what differs.
func checkShared(t *testing.T, before, after *rdma.Snapshot) {
	t.Helper()
	changed := rdma.NamesOf(rdma.Compare(before, after).HCAs...)
	known := map[string]*rdma.HCA{}
	for i := range before.HCAs {
		known[before.HCAs[i].Name] = &before.HCAs[i]
	}
	for i := range after.HCAs {
		h := &after.HCAs[i]
		old := known[h.Name]
		if same := old != nil && reflect.DeepEqual(*old, *h); same == changed.Has(h.Name) {
			t.Errorf("HCA %s: changed %v, but equal %v", h.Name, changed.Has(h.Name), same)
		} else if same && (len(h.Ports) > 0 && &h.Ports[0] != &old.Ports[0] || h.PCI != old.PCI || h.Uverbs != old.Uverbs) {
			t.Errorf("HCA %s did not change, but shares no memory", h.Name)
		}
	}
	for name := range known {
		test.True(t, after.Lookup(name) != nil || changed.Has(name), test.Sprintf("HCA %s went unnoticed", name))
	}
}

// mutableHost is an extracted machine that a test changes as the kernel would.
type mutableHost struct {
	t       *testing.T
	dir     string // its /sys
	sys     fs.ReadLinkFS
	scanner *rdma.Scanner
	last    *rdma.Snapshot
	rand    *rand.Rand
	number  int       // for names that are not there yet
	away    []removed // HCAs that went
}

// removed is an HCA that is not there for a while.
type removed struct {
	ibdev string
	moved map[string]string // where its files are now, by where they belong
	links map[string]string // class entries
	nodes []string
}

// change makes one random change and returns its name and what the kernel, or the
// poll of port states, would say of it.
func (m *mutableHost) change() (string, rdma.Changes) {
	kinds := []struct {
		name string
		make func() rdma.Changes
	}{
		{"port state", m.portState}, {"attribute", m.attribute}, {"unplug", m.unplug}, {"plug in", m.plugIn},
		{"rename", m.rename}, {"renumber", m.renumber}, {"rename interface", m.renameNetdev},
		{"interface address", m.netdevAddress}, {"bond", m.bond}, {"another HCA", m.addHCA},
		{"interface of a GID", m.gidNetdev}, {"representor", m.representor}, {"host", m.hostPart}, {"function", m.function},
		{"veth", m.veth}, {"nothing", m.nothing},
	}
	k := kinds[m.rand.IntN(len(kinds))]
	return k.name, k.make()
}

func (m *mutableHost) path(name string) string { return filepath.Join(m.dir, name) }

// pick returns one of the entries of a directory, "" if it has none.
func (m *mutableHost) pick(dir string) string {
	all := m.list(dir)
	if len(all) == 0 {
		return ""
	}
	return all[m.rand.IntN(len(all))]
}

func (m *mutableHost) list(dir string) []string {
	entries, err := os.ReadDir(m.path(dir))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 || e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// real is the directory that an HCA or an interface links to, "" if it has vanished.
func (m *mutableHost) real(entry string) string {
	target, err := os.Readlink(m.path(entry))
	if err != nil {
		return ""
	}
	name := filepath.Join(filepath.Dir(entry), target)
	if _, err := os.Stat(m.path(name)); err != nil {
		return ""
	}
	return name
}

func (m *mutableHost) must(err error) {
	m.t.Helper()
	must.NoError(m.t, err)
}

// write replaces a file, also one whose read is to fail.
func (m *mutableHost) write(name, content string) {
	if err := os.Remove(m.path(name)); err != nil && !os.IsNotExist(err) {
		return // a directory
	}
	m.must(os.MkdirAll(filepath.Dir(m.path(name)), 0o755))
	m.must(os.WriteFile(m.path(name), []byte(content+"\n"), 0o644))
}

func (m *mutableHost) fresh(prefix string) string {
	m.number++
	return fmt.Sprintf("%s%d", prefix, 5000+m.number)
}

func (m *mutableHost) one(of ...string) string { return of[m.rand.IntN(len(of))] }

// move renames a directory and its class entry.
func (m *mutableHost) move(class, from, to string) {
	real := m.real(class + "/" + from)
	target := filepath.Join(filepath.Dir(real), to)
	m.must(os.Rename(m.path(real), m.path(target)))
	m.must(os.Remove(m.path(class + "/" + from)))
	m.must(os.Symlink("../../"+target, m.path(class+"/"+to)))
}

func (m *mutableHost) nothing() rdma.Changes {
	return rdma.Changes{
		All: m.rand.IntN(4) == 0, Host: true, IBDevs: rdma.NamesOf(m.pick("class/infiniband"), "absent"),
		Nodes:     rdma.NamesOf("uverbs7", "issm1", "abi_version"),
		Netdevs:   rdma.NamesOf("lo", "absent", m.pick("class/net")),
		Functions: rdma.NamesOf(m.pick("bus/pci/devices"), "absent"),
	}
}
