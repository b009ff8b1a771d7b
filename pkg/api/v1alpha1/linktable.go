package v1alpha1

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// LinkTableKind is the kind of a LinkTable.
const LinkTableKind = "LinkTable"

// MaxLinks bounds the links of a table.
const MaxLinks = 10_000

// LinkTable says to which leaf switches HCAs are connected: the table of a site, or a file that a host keeps for
// itself. It is YAML or JSON. Check must be called after it was decoded.
type LinkTable struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// Time is when a host wrote its file. A file without it has the time of its last change.
	Time time.Time `yaml:"time"`
	// Links are in no order.
	Links []Link `yaml:"links"`
}

// Link is the cable of a port, or of several.
type Link struct {
	// GUID names the port: the port GUID, or the node GUID for an HCA with one port. It is as sysfs or iblinkinfo prints
	// it: a088:c203:003f:1800, 0xa088c203003f1800.
	GUID string `yaml:"guid"`
	// Node and HCA name the port otherwise. HCA is the name of the device, the kernel's name, or that of the interface;
	// mlx4_0/2 is the second port. A host's file needs no node.
	Node string `yaml:"node"`
	HCA  string `yaml:"hca"`
	// NodeLabel is a label of nodes that has the name of the leaf. {ibdev} and {netdev} in it are the names of an HCA. It
	// holds for all HCAs of all nodes.
	NodeLabel string `yaml:"nodeLabel"`
	// Leaf is the switch, Port its port, and Fabric the network, "" if they are not known.
	Leaf   string `yaml:"leaf"`
	Port   string `yaml:"port"`
	Fabric string `yaml:"fabric"`

	guid rdma.GUID
}

// LinkPort is a port for which a table may have a link.
type LinkPort struct {
	Node string
	// GUIDs and Names are those of the port, its HCA and its interfaces.
	GUIDs []rdma.GUID
	Names []string
	// Number is that of the port. First says that it is the first one of its HCA: a name without a number means it.
	Number int
	First  bool
}

// IsOf reports whether a link names a port, by a GUID or by node and HCA.
func (l *Link) IsOf(p *LinkPort) bool {
	if l.guid != 0 {
		return slices.Contains(p.GUIDs, l.guid)
	}
	if l.HCA == "" || l.Node != "" && l.Node != p.Node {
		return false
	}
	for _, name := range p.Names {
		if name != "" && (l.HCA == name && p.First || l.HCA == name+"/"+strconv.Itoa(p.Number)) {
			return true
		}
	}
	return false
}

// SameLeaf reports whether two names are of one leaf switch: a plan may leave out the domain of a name.
func SameLeaf(planned, seen string) bool {
	a, aDomain, _ := strings.Cut(planned, ".")
	b, bDomain, _ := strings.Cut(seen, ".")
	return strings.EqualFold(a, b) && (aDomain == "" || bDomain == "" || strings.EqualFold(aDomain, bDomain))
}

// Check validates a decoded table. A table of a site names a node wherever it names an HCA. In a host's file, Check
// leaves out links that are wrong: whoever is on the wire has a part in them, and must not spoil others. A leaf with a
// name that is too long is no mistake here, since the switch may say so: it is left out where it is used.
func (t *LinkTable) Check(ofSite bool) error {
	switch {
	case t.APIVersion != GroupVersion.String() || t.Kind != LinkTableKind:
		return fmt.Errorf("want apiVersion %s and kind %s, not %q and %q", GroupVersion, LinkTableKind, t.APIVersion, t.Kind)
	case len(t.Links) > MaxLinks:
		return fmt.Errorf("there are %d links, at most %d are allowed: let the hosts write files", len(t.Links), MaxLinks)
	}
	right := t.Links[:0]
	for i := range t.Links {
		err := t.Links[i].check(ofSite)
		if err != nil && ofSite {
			return fmt.Errorf("links[%d]: %w", i, err)
		}
		if err == nil {
			right = append(right, t.Links[i])
		}
	}
	t.Links = right
	return nil
}

func (l *Link) check(ofSite bool) (err error) {
	keys := 0
	for _, key := range []string{l.GUID, l.HCA, l.NodeLabel} {
		if key != "" {
			keys++
		}
	}
	switch {
	case keys != 1:
		return fmt.Errorf("want one of guid, hca and nodeLabel, not %d", keys)
	case l.Leaf == "" && l.NodeLabel == "":
		return errors.New("leaf is required")
	case l.NodeLabel != "" && (l.Leaf != "" || l.Port != "" || l.Node != ""):
		return errors.New("the label has the name of the leaf: leave out leaf, port and node")
	case l.Node != "" && l.HCA == "":
		return errors.New("node needs hca")
	case ofSite && l.HCA != "" && l.Node == "":
		return errors.New("hca needs node in the table of a site")
	case l.GUID != "":
		l.guid, err = parseGUID(l.GUID)
	}
	return err
}

// parseGUID parses a GUID as sysfs or iblinkinfo prints it.
func parseGUID(s string) (rdma.GUID, error) {
	guid, err := rdma.ParseGUID(s)
	if digits, ok := strings.CutPrefix(s, "0x"); ok {
		n, numberErr := strconv.ParseUint(digits, 16, 64)
		guid, err = rdma.GUID(n), numberErr
	}
	if err != nil || guid == 0 {
		return 0, fmt.Errorf("guid %q is none: want a088:c203:003f:1800 or 0xa088c203003f1800", s)
	}
	return guid, nil
}
