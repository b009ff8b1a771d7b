package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// nodeTable holds the uverbs, umad and issm nodes of a host, by name and by ibdev.
type nodeTable struct {
	byName   map[string]*nodeEntry
	byIBDev  map[string][]*nodeEntry
	problems []Problem // of the directories
}

// nodeEntry is one node as the class directories describe it.
type nodeEntry struct {
	Node
	ibdev    string // empty if that cannot be read
	numbered bool   // Major and Minor are known
	problems []Problem
}

// listNodes reads the class directories of nodes.
func listNodes(sys fs.ReadLinkFS) nodeTable {
	r := &reader{sys: sys}
	t := nodeTable{byName: map[string]*nodeEntry{}, byIBDev: map[string][]*nodeEntry{}}
	for _, class := range []string{classVerbs, classMAD} {
		for _, name := range slices.Backward(r.list(class)) { // umad before issm
			t.refresh(sys, name)
		}
	}
	t.problems = r.problems
	return t
}

// namesOf returns the names of the nodes of an HCA.
func (t *nodeTable) namesOf(ibdev string) []string {
	var names []string
	for _, e := range t.byIBDev[ibdev] {
		names = append(names, e.Name)
	}
	return names
}

// kindOf returns the kind and class of a node by its name. It returns nothing for an attribute
// of the class (abi_version).
func kindOf(name string) (kind NodeKind, class string) {
	switch kind = NodeKind(strings.TrimRight(name, "0123456789")); kind {
	case NodeUverbs:
		return kind, classVerbs
	case NodeUMAD, NodeISSM:
		return kind, classMAD
	}
	return "", ""
}

// refresh reads one node again. It returns the node's ibdev before and after the read. Either may
// be empty.
func (t *nodeTable) refresh(sys fs.ReadLinkFS, name string) (before, after string) {
	if old := t.byName[name]; old != nil {
		before = old.ibdev
		delete(t.byName, name)
		remove(t.byIBDev, before, old)
	}
	if e := t.read(sys, name); e != nil {
		after = e.ibdev
		t.byName[name] = e
		t.byIBDev[after] = append(t.byIBDev[after], e)
	}
	return before, after
}

// read reads the class directory of a node. It returns nil if there is no such node.
func (t *nodeTable) read(sys fs.ReadLinkFS, name string) *nodeEntry {
	kind, class := kindOf(name)
	if class == "" {
		return nil
	}
	e := &nodeEntry{Node: Node{Kind: kind, Name: name}}
	r := &reader{sys: sys}
	dir := class + "/" + name + "/"
	if !t.readTwin(e, r, dir) {
		r.ibdev = r.read(dir + "ibdev")
	}
	switch {
	case r.ibdev == "" && len(r.problems) == 0:
		return nil // removed since it was listed
	case r.ibdev != "" && !e.numbered:
		if kind != NodeUverbs {
			e.Port = *cmp.Or(parsed(r, dir+"port", number), new(int))
		}
		e.numbered = e.setDev(r, r.read(dir+"dev"))
	}
	e.ibdev, e.problems = r.ibdev, r.problems
	return e
}

// readTwin copies the port of an issm node from the umad node with the same number, because
// the kernel makes them in pairs (drivers/infiniband/core/user_mad.c,
// ib_umad_init_port). It reports whether the node needs no further reads.
func (t *nodeTable) readTwin(e *nodeEntry, r *reader, dir string) bool {
	num, ok := strings.CutPrefix(e.Name, string(NodeISSM))
	twin := t.byName[string(NodeUMAD)+num]
	if !ok || twin == nil || !twin.numbered || twin.Port == 0 {
		return false
	}
	dev := r.optional(dir + "dev")
	if _, _, err := ParseDev(dev); err != nil {
		return false // the caller's full read reports what is wrong
	}
	r.ibdev, e.Port = twin.ibdev, twin.Port
	e.numbered = e.setDev(r, dev)
	return true
}

// setDev sets the device number of a node from the text of its dev file. It reports whether
// that is valid.
func (n *Node) setDev(r *reader, dev string) bool {
	err := errors.New("the dev file is empty or gone")
	if dev != "" {
		n.Major, n.Minor, err = ParseDev(dev)
	}
	if err != nil {
		r.problem(fmt.Errorf("read device number of %s: %w", n.Name, err))
	}
	return err == nil
}

// nodesOf returns the usable nodes of an HCA: its uverbs node, nil if there is none, and its
// umad and issm nodes by port, umad first.
func (t *nodeTable) nodesOf(ibdev string) (uverbs *Node, mads []Node) {
	if ibdev == "" {
		return nil, nil
	}
	for _, e := range t.byIBDev[ibdev] {
		switch {
		case !e.numbered:
		case e.Kind != NodeUverbs && e.Port != 0:
			mads = append(mads, e.Node)
		case e.Kind == NodeUverbs && (uverbs == nil || uverbs.Name < e.Name):
			n := e.Node
			uverbs = &n
		}
	}
	slices.SortFunc(mads, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), strings.Compare(b.Name, a.Name))
	})
	return uverbs, mads
}

// NodeClass is a group of character devices. A container gets all of a class or none.
type NodeClass string

// The node classes, from least to most privileged.
const (
	ClassVerbs NodeClass = "verbs" // uverbsN of the HCA
	ClassCM    NodeClass = "cm"    // rdma_cm, where the host has it
	ClassPSM   NodeClass = "psm"   // hfi1_N of an Omni-Path HCA, for PSM2 and OPX
	ClassMAD   NodeClass = "mad"   // umadN of every port
	ClassSM    NodeClass = "sm"    // issmN of every port
)

// NodeClasses lists all classes, least privilege first.
var NodeClasses = []NodeClass{ClassVerbs, ClassCM, ClassPSM, ClassMAD, ClassSM}

// DefaultClasses are the classes without a configuration. ClassPSM is not among them: the rdma cgroup controller does
// not count what a process holds of hfi1_N, so limits do not bound it, and exclusive network namespaces do not keep
// it apart.
var DefaultClasses = []NodeClass{ClassVerbs, ClassCM}

// Privileged reports whether the class opens the management interface of a fabric. A process
// that sends MADs can take links down and read the routes of all traffic.
func (c NodeClass) Privileged() bool { return c == ClassMAD || c == ClassSM }

// ParseNodeClass checks the name of a class.
func ParseNodeClass(s string) (NodeClass, error) {
	if c := NodeClass(s); slices.Contains(NodeClasses, c) {
		return c, nil
	}
	return "", fmt.Errorf("unknown nodes %q: want one of verbs, cm, psm, mad, sm", s)
}

// The user devices of Omni-Path. The kernel gives device and HCA one name (hfi1_0), and does not link them
// (drivers/infiniband/hw/hfi1/file_ops.c, user_add).
const (
	classPSM = "class/hfi1_user"
	driverOP = "hfi1"
)

// readPSM finds the user device of an Omni-Path HCA by the name that the kernel gives both. udev may have renamed the
// HCA: then it is the only one of the class, if the host has one such card. Otherwise the HCA has none, because a
// container would get the node of another card.
func (c *card) readPSM() {
	if c.hca.Driver != driverOP {
		return
	}
	name := c.hca.IBDev
	dev, exists := c.files.lookUp(path.Join(classPSM, name, "dev"))
	if !exists {
		names := c.files.list(classPSM)
		if len(names) != 1 || c.files.countPSMCards() != 1 {
			return
		}
		name = names[0]
		dev = c.files.optional(path.Join(classPSM, name, "dev"))
	}
	n := Node{Kind: NodePSM, Name: name}
	if isName(name) && n.setDev(&c.files, dev) {
		c.hca.PSM = &n
	}
}

// countPSMCards counts the PCI functions that driverOP holds.
func (r *reader) countPSMCards() int {
	n := 0
	for _, name := range r.list("bus/pci/drivers/" + driverOP) {
		if strings.Count(name, ":") == 2 { // an address; bind and module are beside it
			n++
		}
	}
	return n
}
