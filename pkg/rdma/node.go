package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// nodeTable holds the uverbs, umad and issm nodes of a host, by name and by ibdev.
type nodeTable struct {
	byName   map[string]*nodeEntry
	byIBDev  map[string][]*nodeEntry
	faulty   map[string]*nodeEntry // entries with problems, by name
	problems []Problem             // of the directories
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
	t := nodeTable{byName: map[string]*nodeEntry{}, byIBDev: map[string][]*nodeEntry{}, faulty: map[string]*nodeEntry{}}
	r := &reader{sys: sys}
	names := slices.Concat(r.list(classVerbs), r.list(classMAD))
	t.problems = r.problems
	for _, kind := range nodeKinds {
		ofKind := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return !strings.HasPrefix(name, string(kind.kind))
		})
		entries := make([]*nodeEntry, len(ofKind))
		inParallel(len(entries), func(i int) { entries[i] = t.read(sys, ofKind[i]) })
		for _, e := range entries {
			t.add(e)
		}
	}
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

// nodeKinds are the classes of nodes. issm comes after umad, because readTwin takes the port from there.
var nodeKinds = []struct {
	kind  NodeKind
	class string
}{{NodeUverbs, classVerbs}, {NodeUMAD, classMAD}, {NodeISSM, classMAD}}

// kindOf returns the kind and class of a node by its name. It returns nothing for an attribute
// of the class (abi_version).
func kindOf(name string) (kind NodeKind, class string) {
	for _, k := range nodeKinds {
		if strings.HasPrefix(name, string(k.kind)) {
			return k.kind, k.class
		}
	}
	return "", ""
}

// refresh reads one node again. It returns the node's ibdev before and after the read. Either may
// be empty.
func (t *nodeTable) refresh(sys fs.ReadLinkFS, name string) (before, after string) {
	if old := t.byName[name]; old != nil {
		before = old.ibdev
		delete(t.byName, name)
		delete(t.faulty, name)
		remove(t.byIBDev, before, old)
	}
	if e := t.read(sys, name); e != nil {
		after = e.ibdev
		t.add(e)
	}
	return before, after
}

func (t *nodeTable) add(e *nodeEntry) {
	if e == nil {
		return
	}
	t.byName[e.Name] = e
	t.byIBDev[e.ibdev] = append(t.byIBDev[e.ibdev], e)
	if len(e.problems) > 0 {
		t.faulty[e.Name] = e
	}
}

// read reads the class directory of a node. It returns nil if there is no such node.
func (t *nodeTable) read(sys fs.ReadLinkFS, name string) *nodeEntry {
	kind, class := kindOf(name)
	if class == "" || !isName(name) {
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

// of returns the usable nodes of an HCA: its uverbs node, nil if there is none, and its
// umad and issm nodes by port, umad first.
func (t *nodeTable) of(ibdev string) (uverbs *Node, mads []Node) {
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
		if a.Port != b.Port {
			return a.Port - b.Port
		}
		return strings.Compare(b.Name, a.Name)
	})
	return uverbs, mads
}
