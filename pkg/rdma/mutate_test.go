package rdma_test

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The changes that a host goes through, each with what names it.

// portState is a link that goes down or comes up.
func (m *mutableHost) portState() rdma.Changes {
	ibdev := m.pick("class/infiniband")
	real := m.real("class/infiniband/" + ibdev)
	port := m.pick(filepath.Join(real, "ports"))
	if real == "" || port == "" {
		return rdma.Changes{}
	}
	dir := filepath.Join(real, "ports", port)
	m.write(dir+"/state", m.one("1: DOWN", "2: INIT", "4: ACTIVE", "garbage"))
	m.write(dir+"/phys_state", m.one("3: Disabled", "2: Polling", "5: LinkUp"))
	m.write(dir+"/rate", m.one("40 Gb/sec (4X QDR)", "400 Gb/sec (4X NDR)"))
	return rdma.Changes{IBDevs: rdma.NamesOf(ibdev)}
}

// attribute is a value that a driver gives or leaves out.
func (m *mutableHost) attribute() rdma.Changes {
	ibdev := m.pick("class/infiniband")
	real := m.real("class/infiniband/" + ibdev)
	if real == "" {
		return rdma.Changes{}
	}
	switch file := real + "/" + m.one("node_guid", "sys_image_guid", "fw_ver", "board_id", "hca_type", "node_type"); {
	case m.rand.IntN(4) == 0:
		os.Remove(m.path(file)) // may be absent
	case strings.HasSuffix(file, "guid"):
		m.write(file, m.one("0000:0000:0000:0000", "a088:c203:003f:1a2b", "b83f:d2ff:fe89:0000"))
	case strings.HasSuffix(file, "node_type"):
		m.write(file, m.one("1: CA", "4: RNIC"))
	default:
		m.write(file, m.fresh("x"))
	}
	return rdma.Changes{IBDevs: rdma.NamesOf(ibdev)}
}

// unplug removes an HCA with its nodes, as an unbound driver does.
func (m *mutableHost) unplug() rdma.Changes {
	ibdev := m.pick("class/infiniband")
	real := m.real("class/infiniband/" + ibdev)
	if real == "" {
		return rdma.Changes{}
	}
	gone := removed{ibdev: ibdev, moved: map[string]string{}, links: map[string]string{}}
	m.takeAway(&gone, "class/infiniband/"+ibdev, real)
	for _, class := range []string{"class/infiniband_verbs", "class/infiniband_mad"} {
		for _, node := range m.list(class) {
			entry := class + "/" + node
			b, err := os.ReadFile(m.path(entry + "/ibdev"))
			if err == nil && strings.TrimSpace(string(b)) == ibdev {
				m.takeAway(&gone, entry, m.real(entry))
				gone.nodes = append(gone.nodes, node)
			}
		}
	}
	m.away = append(m.away, gone)
	return rdma.Changes{IBDevs: rdma.NamesOf(ibdev), Nodes: rdma.NamesOf(gone.nodes...)}
}

// takeAway puts a directory out of the tree, and removes its class entry.
func (m *mutableHost) takeAway(gone *removed, entry, real string) {
	target, err := os.Readlink(m.path(entry))
	m.must(err)
	gone.links[entry] = target
	m.must(os.Remove(m.path(entry)))
	away := filepath.Join(filepath.Dir(m.dir), m.fresh("away"))
	m.must(os.Rename(m.path(real), away))
	os.Remove(m.path(filepath.Dir(real))) // the last entry takes the directory of its class along
	gone.moved[real] = away
}

// plugIn brings an HCA back.
func (m *mutableHost) plugIn() rdma.Changes {
	if len(m.away) == 0 {
		return rdma.Changes{}
	}
	i := m.rand.IntN(len(m.away))
	back := m.away[i]
	for entry := range back.links {
		if _, err := os.Lstat(m.path(entry)); err == nil {
			return rdma.Changes{} // another one has the name now
		}
	}
	m.away = append(m.away[:i], m.away[i+1:]...)
	for real, away := range back.moved {
		m.must(os.MkdirAll(filepath.Dir(m.path(real)), 0o755))
		m.must(os.Rename(away, m.path(real)))
	}
	for entry, target := range back.links {
		m.must(os.Symlink(target, m.path(entry)))
	}
	return rdma.Changes{IBDevs: rdma.NamesOf(back.ibdev), Nodes: rdma.NamesOf(back.nodes...)}
}

// addHCA gives a network function without an HCA one.
func (m *mutableHost) addHCA() rdma.Changes {
	for _, address := range m.list("bus/pci/devices") {
		real := m.real("bus/pci/devices/" + address)
		if real == "" || len(m.list(real+"/net")) == 0 || len(m.list(real+"/infiniband")) > 0 {
			continue
		}
		ibdev := m.fresh("rdma")
		m.must(os.MkdirAll(m.path("class/infiniband"), 0o755))
		m.write(real+"/infiniband/"+ibdev+"/node_type", "1: CA")
		m.must(os.Symlink("../../"+real+"/infiniband/"+ibdev, m.path("class/infiniband/"+ibdev)))
		return rdma.Changes{IBDevs: rdma.NamesOf(ibdev)}
	}
	return rdma.Changes{}
}

// rename gives an HCA another name, which its nodes then say.
func (m *mutableHost) rename() rdma.Changes {
	ibdev := m.pick("class/infiniband")
	if ibdev == "" || m.real("class/infiniband/"+ibdev) == "" {
		return rdma.Changes{}
	}
	to := m.fresh("rdma")
	m.move("class/infiniband", ibdev, to)
	for _, class := range []string{"class/infiniband_verbs", "class/infiniband_mad"} {
		for _, node := range m.list(class) {
			file := class + "/" + node + "/ibdev"
			if b, err := os.ReadFile(m.path(file)); err == nil && strings.TrimSpace(string(b)) == ibdev {
				m.write(file, to)
			}
		}
	}
	return rdma.Changes{IBDevs: rdma.NamesOf(ibdev, to)}
}

// renumber gives a node another number, as a move between network namespaces does.
func (m *mutableHost) renumber() rdma.Changes {
	class := m.one("class/infiniband_verbs", "class/infiniband_mad")
	node := m.pick(class)
	if node == "" || m.real(class+"/"+node) == "" {
		return rdma.Changes{}
	}
	if strings.HasPrefix(node, "issm") || m.rand.IntN(2) == 0 {
		m.write(class+"/"+node+"/dev", m.one("231:77", "511:4", "garbage", ""))
		return rdma.Changes{Nodes: rdma.NamesOf(node)}
	}
	num := strings.TrimLeft(node, "umadverbs")
	to := m.fresh("")
	kind := strings.TrimSuffix(node, num)
	m.move(class, node, kind+to)
	changes := rdma.Changes{Nodes: rdma.NamesOf(node, kind+to)}
	if issm := "issm" + num; kind == "umad" && m.real(class+"/"+issm) != "" {
		m.move(class, issm, "issm"+to) // the kernel numbers them together
		changes.Nodes.Add(issm, "issm"+to)
	}
	return changes
}

// renameNetdev renames an interface; the GIDs of its ports follow, or not.
func (m *mutableHost) renameNetdev() rdma.Changes {
	name := m.pick("class/net")
	if name == "" || name == "lo" || m.real("class/net/"+name) == "" {
		return rdma.Changes{}
	}
	to := m.one(m.fresh("net"), "net1")
	if _, err := os.Lstat(m.path("class/net/" + to)); err == nil {
		return rdma.Changes{}
	}
	m.move("class/net", name, to)
	return rdma.Changes{Netdevs: rdma.NamesOf(name, to)}
}

// netdevAddress gives an interface another hardware address, or takes its port away.
func (m *mutableHost) netdevAddress() rdma.Changes {
	name := m.pick("class/net")
	real := m.real("class/net/" + name)
	if name == "" || real == "" {
		return rdma.Changes{}
	}
	m.write(real+"/address", m.one("b8:3f:d2:89:00:00", "00:16:3e:2f:5a:11", "00:00:00:00:00:00"))
	if m.rand.IntN(2) == 0 {
		m.write(real+"/dev_port", m.one("0", "1", "x"))
	}
	return rdma.Changes{Netdevs: rdma.NamesOf(name)}
}

// bond changes what an interface carries, or the members or the mode of a bond.
func (m *mutableHost) bond() rdma.Changes {
	name := m.pick("class/net")
	real := m.real("class/net/" + name)
	if name == "" || real == "" {
		return rdma.Changes{}
	}
	switch m.rand.IntN(4) {
	case 0:
		m.write(real+"/bonding/slaves", m.one("", m.pick("class/net"), strings.Join(m.list("class/net"), " ")))
	case 1:
		m.write(real+"/bonding/mode", m.one("802.3ad 4", "active-backup 1"))
	default:
		m.write(real+"/speed", m.one("-1", "25000", "100000", "garbage"))
	}
	return rdma.Changes{Netdevs: rdma.NamesOf(name)}
}

// gidNetdev gives the first GID of a port another interface: a bond, or a container.
func (m *mutableHost) gidNetdev() rdma.Changes {
	ibdev := m.pick("class/infiniband")
	real := m.real("class/infiniband/" + ibdev)
	port := m.pick(filepath.Join(real, "ports"))
	if real == "" || port == "" {
		return rdma.Changes{}
	}
	m.write(filepath.Join(real, "ports", port, "gid_attrs/ndevs/0"), m.one(m.pick("class/net"), "elsewhere", "net1", ""))
	return rdma.Changes{IBDevs: rdma.NamesOf(ibdev)}
}

// representor turns an interface into one of an embedded switch, or back.
func (m *mutableHost) representor() rdma.Changes {
	name := m.pick("class/net")
	real := m.real("class/net/" + name)
	if name == "" || real == "" {
		return rdma.Changes{}
	}
	m.write(real+"/phys_port_name", m.one("pf0vf3", "p0", "", "3"))
	m.write(real+"/phys_switch_id", m.one("00554500c288a000", ""))
	return rdma.Changes{Netdevs: rdma.NamesOf(name)}
}

// hostPart loads or unloads the connection manager, or changes the netns mode.
func (m *mutableHost) hostPart() rdma.Changes {
	switch m.rand.IntN(3) {
	case 0:
		m.write("module/ib_core/parameters/netns_mode", m.one("Y", "N", "?"))
	case 1:
		os.Remove(m.path("class/misc/rdma_cm/dev")) // may be absent
	default:
		m.write("class/misc/rdma_cm/dev", m.one("10:58", "10:59"))
	}
	return rdma.Changes{Host: true}
}

// function changes a PCI function: its driver, its NUMA node, the links of a PF.
func (m *mutableHost) function() rdma.Changes {
	address := m.pick("bus/pci/devices")
	real := m.real("bus/pci/devices/" + address)
	if address == "" || real == "" {
		return rdma.Changes{}
	}
	switch m.rand.IntN(3) {
	case 0:
		m.write(real+"/uevent", m.one("DRIVER=mlx5_core\nPCI_ID=15B3:101E", "PCI_ID=15B3:1021", "DRIVER=efa", ""))
	case 1:
		m.write(real+"/numa_node", m.one("-1", "0", "3"))
	default:
		for _, link := range m.list(real) {
			if strings.HasPrefix(link, "virtfn") {
				m.must(os.Rename(m.path(real+"/"+link), m.path(real+"/"+m.fresh("virtfn"))))
				break
			}
		}
	}
	return rdma.Changes{Functions: rdma.NamesOf(address)}
}

// veth plugs in an interface of a container, which nobody names.
func (m *mutableHost) veth() rdma.Changes {
	name := m.fresh("veth")
	m.write("devices/virtual/net/"+name+"/address", "0a:58:0a:f4:00:0"+m.one("1", "2", "3"))
	m.must(os.Symlink("../../devices/virtual/net/"+name, m.path("class/net/"+name)))
	return rdma.Changes{}
}
