package follow

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside/joined"
)

// belongings are what pods get of the host, and what may be left of pods.
type belongings struct {
	files    []string // addresses that were given, records and specs of claims, records of interfaces
	hardware []string
}

// counted returns what the host has, for home. If the test fails it says what there is to
// see.
func counted(t *testing.T) belongings {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(joined.Said(context.Background(), node))
		}
	})
	all, err := hardware()
	must.NoError(t, err)
	return belongings{files(t), all}
}

// home waits until the host has all that it had, and no more. It looks at the hardware, which takes three programs,
// when the files are gone.
func home(t *testing.T, want belongings) {
	t.Helper()
	inside.Eventually(t, "the host has what it had", 4*time.Minute, func() error {
		if got := files(t); !slices.Equal(got, want.files) {
			return fmt.Errorf("it had the files %q and has %q", want.files, got)
		}
		got, err := hardware()
		if err == nil && !slices.Equal(got, want.hardware) {
			err = fmt.Errorf("it had\n%s\nand has\n%s", strings.Join(want.hardware, "\n"), strings.Join(got, "\n"))
		}
		return err
	})
}

// records is where prepared claims have their records. The spec of a claim is away while its device is; only without
// its record has a claim ended.
const records = "/run/rdma.dev/state/claims"

// files are those of belongings.
func files(t *testing.T) (all []string) {
	t.Helper()
	root := nodeRoot(t)
	dirs, err := filepath.Glob(root + "/var/lib/cni/networks/rdma.dev-*")
	must.NoError(t, err)
	dirs = append(dirs, root+records, root+"/run/cdi", root+"/var/lib/kubelet/plugins/rdma.dev/interfaces")
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error { // what goes meanwhile is gone
			if err == nil && e.Type().IsRegular() && e.Name() != "lock" && !strings.HasPrefix(e.Name(), "last_reserved_ip.") {
				all = append(all, strings.TrimPrefix(path, root))
			}
			return nil
		})
	}
	return all
}

// hardware is what pods get of the host, by what makes each the one that it is: RDMA devices, in sysfs
// and by the kernel's own list, and network interfaces with addresses, routes and settings.
func hardware() (all []string, err error) {
	snap, err := rdma.Discover(sysfs.DirFS("/sys"))
	if err != nil {
		return nil, err
	}
	for _, h := range snap.HCAs {
		all = append(all, fmt.Sprintf("%s %s %s", h.IBDev, h.Name, h.NodeGUID))
	}
	names, err := devices("self")
	if err != nil {
		return nil, err
	}
	all = append(all, fmt.Sprint("devices ", names))
	links, err := linksOf()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		if l.Info.Kind != "veth" { // those are the ends of pods' eth0
			ignore, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + l.Name + "/arp_ignore")
			if err != nil {
				return nil, err
			}
			all = append(all, fmt.Sprintf("%s arp_ignore %s", l, ignore))
		}
	}
	for neighbour := range strings.Lines(inside.Run("ip", "neigh", "show", "nud", "permanent").Out) {
		if !strings.Contains(neighbour, "dev veth") {
			all = append(all, "neighbour "+strings.TrimSpace(neighbour))
		}
	}
	routes := inside.Run("ip", "route", "show", "table", "all")
	for route := range strings.Lines(routes.Out) {
		if !strings.Contains(route, "dev veth") && !strings.Contains(route, "proto kernel") &&
			!strings.Contains(route, "proto ra") {
			all = append(all, "route "+strings.TrimSpace(route))
		}
	}
	return all, nil
}

// link is a network interface as ip tells of it.
type link struct {
	Name  string   `json:"ifname"`
	MAC   string   `json:"address"`
	Alias string   `json:"ifalias"`
	MTU   int      `json:"mtu"`
	Flags []string `json:"flags"`
	Info  struct {
		Kind string `json:"info_kind"`
	} `json:"linkinfo"`
	Stats struct {
		Tx struct {
			Packets int `json:"packets"`
		}
	} `json:"stats64"`
	Assigned []struct {
		Local string `json:"local"`
		Bits  int    `json:"prefixlen"`
		Scope string `json:"scope"`
	} `json:"addr_info"`
}

func (l *link) String() string {
	return fmt.Sprintf("link %s %s %q mtu %d up %v %v", l.Name, l.MAC, l.Alias, l.MTU, l.up(), l.addresses())
}

func (l *link) up() bool { return slices.Contains(l.Flags, "UP") }

// addresses are those that somebody gave it.
func (l *link) addresses() (out []string) {
	for _, a := range l.Assigned {
		if a.Scope == "global" {
			out = append(out, fmt.Sprintf("%s/%d", a.Local, a.Bits))
		}
	}
	return out
}

// linksOf are the network interfaces of the host, or of the namespace that a command enters.
func linksOf(enter ...string) (all []*link, err error) {
	r := inside.Run(append(enter, "ip", "-json", "-details", "-stats", "address", "show")...)
	if err := json.Unmarshal([]byte(r.Out), &all); err != nil {
		return nil, fmt.Errorf("ip says %s: %w", r.Out, err)
	}
	return all, nil
}
