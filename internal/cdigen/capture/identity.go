package capture

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/internal/support"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// common are words that a host, a user or a value may have, and that say nothing, since each report has them.
const common = `localhost localdomain host domain user home root (hidden) nobody container ubuntu debian fedora
	rocky almalinux centos rhel suse flatcar talos bottlerocket linux kernel gnu true false none null unlimited
	active down init armed defer ethernet infiniband link linkup polling disabled sleep unknown mellanox technologies
	broadcom intel roce report readme machine versions doctor specs source peculiar
	summary findings id severity error warning info acknowledged ok not seen subjects message remedy
	cdiVersion kind annotations devices name containerEdits env deviceNodes netDevices hooks mounts intelRdt
	additionalGids path hostPath type major minor fileMode permissions uid gid containerPath options hookName args timeout
	closID l3CacheSchema memBwSchema schemata enableMonitoring hostInterfaceName createRuntime createContainer
	startContainer prestart poststart poststop bind rbind private rprivate slave rslave shared rshared nosuid nodev noexec
	relatime noatime nodiratime tmpfs sysfs proc etc osrelease release json yaml unreadable cdi gen from known not yet`

// Names are the names that identify a host besides its addresses.
type Names struct {
	Hosts, Users []string
}

// NewScrubber returns a scrubber for the host of a tree. names are those of the host; a nil key is a random one. A word
// that sysfs itself uses stays.
func NewScrubber(t *tree.Tree, names Names, key []byte) *support.Scrubber {
	kernels, sites := namesIn(t)
	s := support.NewForHost(key)
	s.Keep(append(kernels, common)...)
	for _, name := range names.Hosts {
		s.Host(name)
	}
	for _, name := range names.Users {
		s.Name("user", name)
	}
	for _, e := range t.Entries() {
		switch {
		case e.Kind != tree.File:
		case identifies(e.Path):
			s.Learn(e.Data)
		case path.Base(e.Path) == "node_desc" && !ofDriver.MatchString(e.Data):
			for _, word := range strings.Fields(strings.ReplaceAll(e.Data, path.Base(path.Dir(e.Path)), " ")) {
				if !strings.Contains(word, "mlx") {
					s.Name("host", strings.Trim(word, `@:;,.-_"'()`))
				}
			}
		}
	}
	s.Learn(strings.Join(sites, " "))
	s.Keep(sites...) // for what is hidden later
	return s
}

// namesIn returns the names in a tree that the kernel gives, and those of interfaces and HCAs, which people and udev
// give.
func namesIn(t *tree.Tree) (kernels, sites []string) {
	seen := map[string]bool{}
	for _, e := range append(t.Children("sys/class/net"), t.Children("sys/class/infiniband")...) {
		name := path.Base(e.Path)
		seen[name], seen["lower_"+name], seen["upper_"+name] = true, true, true
		sites = append(sites, name)
	}
	for _, e := range t.Entries() {
		if name := path.Base(e.Path); !seen[name] {
			seen[name] = true
			kernels = append(kernels, name)
		}
	}
	return kernels, sites
}

// identifies reports whether a file holds an address of the host. Others may only repeat one.
func identifies(name string) bool {
	switch path.Base(name) {
	case "address", "node_guid", "sys_image_guid", "parent_guid":
		return true
	}
	return path.Base(path.Dir(name)) == "gids"
}

// Scrub returns a tree without what identifies the host. It is an error if something is left.
func Scrub(t *tree.Tree, s *support.Scrubber) (*tree.Tree, error) {
	out := &tree.Tree{}
	for _, e := range t.Entries() {
		hca := path.Base(path.Dir(e.Path))
		e.Path, e.Target = s.Text(e.Path), s.Text(e.Target)
		if e.Kind == tree.File {
			e.Data = scrubFile(path.Base(e.Path), hca, e.Data, s)
		}
		for _, text := range []string{e.Path, e.Target, e.Data} {
			if kind := s.Leak(text); kind != "" {
				name := path.Base(e.Path)
				if s.Leak(name) != "" {
					name = support.Hidden
				}
				return nil, fmt.Errorf("scrub capture: %s is left in a file %s", kind, name)
			}
		}
		if err := out.Write(e); err != nil {
			return nil, fmt.Errorf("scrub capture: %w", err)
		}
	}
	return out, nil
}

var (
	// ofDriver are the node descriptions that drivers give (mlx5: firmware; drivers/infiniband/sw).
	ofDriver = regexp.MustCompile(`^(MT[0-9]+ (ConnectX|BlueField)[-0-9A-Z]*x?( Family mlx5Gen Virtual Function)?` +
		`( +Mellanox Technologies)?|rxe|Software iWARP stack|)\n?$`)
	versionText = regexp.MustCompile(`^[0-9.]+\n?$`)
)

// scrubFile scrubs the content of a file.
func scrubFile(name, hca, data string, s *support.Scrubber) string {
	switch {
	case name == "vpd":
		v := rdma.ParseVPD([]byte(data)) // of somebody else's capture: the whole
		return tree.VPD(s.Opaque(v.Card), v.Purpose)
	case name == "node_desc" && ofDriver.MatchString(data) || name == "fw_ver" && versionText.MatchString(data):
		return data
	case name == "node_desc" && strings.Contains(data, hca):
		return "host " + s.Text(hca) + "\n"
	case name == "node_desc":
		return "host\n"
	case name == "phys_switch_id":
		return s.Opaque(data)
	}
	return s.Text(data)
}
