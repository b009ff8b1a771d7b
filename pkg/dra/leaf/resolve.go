package leaf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/networkd"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Source is where the leaf of a port comes from.
type Source string

// The sources.
const (
	Networkd Source = "networkd" // LLDP, as systemd-networkd has heard it
	File     Source = "file"     // a LinkTable that the host keeps for itself
	Table    Source = "table"    // a LinkTable of the site
)

// Sources returns all sources.
func Sources() []Source { return []Source{Networkd, File, Table} }

// Link is the other end of a cable.
type Link struct {
	Leaf   string `json:"leaf,omitempty"`
	Port   string `json:"port,omitempty"`   // of the leaf
	Fabric string `json:"fabric,omitempty"` // the network
}

// String returns the leaf and its port.
func (l Link) String() string {
	if l.Port == "" {
		return text.Terminal(l.Leaf)
	}
	return text.Terminal(l.Leaf + " port " + l.Port)
}

// Port is a physical port of an HCA.
type Port struct {
	health.PortID
	// First says that it is the first own port of the HCA.
	First bool
	// IBDev is the kernel's name of the HCA. Netdev is the interface of the port, "" for none.
	IBDev, Netdev string
	// GUIDs name the port.
	GUIDs []rdma.GUID
	// Interfaces are the interfaces with a cable: Netdev, or the members of the bond that it is.
	Interfaces []Interface
}

// Interface is a network interface.
type Interface struct {
	Name  string
	Index int
}

// names returns what a link can call the port.
func (p *Port) names() []string {
	names := []string{p.Device, p.IBDev, p.Netdev}
	for _, i := range p.Interfaces {
		names = append(names, i.Name)
	}
	return names
}

// Inputs are what was read of the sources at one time. An error says that a source could not be read.
type Inputs struct {
	Now time.Time
	// Node is the name of the node. Labels are its labels, nil before the API server has answered.
	Node   string
	Labels map[string]string
	// Heard are the neighbors on interfaces, by index.
	Heard    map[int][]networkd.Neighbor
	HeardErr error
	File     *v1alpha1.LinkTable
	FileErr  error
	Table    *v1alpha1.LinkTable
	TableErr error
}

// Reading is what the sources say of one port at one time.
type Reading struct {
	// Link is empty if no source knows it. Why is the reason then. Source is the source that knows it.
	Link   Link
	Source Source
	Why    string
	// Failed says that no source knows it, and that one could not be read: the link may be as it was.
	Failed bool
	// Planned is the link of the port in the site's table, empty for none.
	Planned Link
}

// fileAge is the age at which a host's file is stale.
const fileAge = time.Hour

// Resolve returns what the sources say of the ports: the first source in the order that knows a port's link decides.
func Resolve(ports []Port, order []Source, in Inputs) map[health.PortID]Reading {
	out := make(map[health.PortID]Reading, len(ports))
	names := chassisOf(ports, in.Heard)
	for i := range ports {
		p := &ports[i]
		r := Reading{Planned: planned(p, in)}
		var reasons []string
		for _, source := range order {
			link, err := in.ask(source, p, names)
			if err == nil {
				err = check(link)
			}
			if err == nil {
				r.Link, r.Source, r.Failed, reasons = link, source, false, nil
				break
			}
			_, failed := errors.AsType[failure](err)
			r.Failed = r.Failed || failed
			reasons = append(reasons, fmt.Sprintf("%s: %v", source, err))
		}
		r.Why = text.Bound(strings.Join(reasons, "; "), maxWhy)
		out[p.PortID] = r
	}
	return out
}

// maxWhy bounds a reason.
const maxWhy = 512

// failure is an error of a source that could not be read.
type failure struct{ error }

var errNone = errors.New("it says nothing of the port")

// check returns why a link cannot be published.
func check(l Link) error {
	for _, value := range []string{l.Leaf, l.Port, l.Fabric} {
		switch {
		case len(value) > resourceapi.DeviceAttributeMaxValueLength:
			return fmt.Errorf("a name has %d bytes, and an attribute has room for %d: %.100q",
				len(value), resourceapi.DeviceAttributeMaxValueLength, value)
		case !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
			return fmt.Errorf("a name has characters that cannot be printed: %.100q", value)
		}
	}
	if strings.TrimSpace(l.Leaf) == "" {
		return errNone
	}
	return nil
}

// ask asks one source for the link of a port.
func (in *Inputs) ask(source Source, p *Port, chassis map[string][]string) (Link, error) {
	switch source {
	case Networkd:
		if in.HeardErr != nil {
			return Link{}, failure{in.HeardErr}
		}
		return in.heard(p, chassis)
	case File:
		if in.FileErr != nil {
			return Link{}, failure{in.FileErr}
		}
		if in.File == nil {
			return Link{}, errNone
		}
		if age := in.Now.Sub(in.File.Time); age > fileAge {
			return Link{}, fmt.Errorf("the file is %s old, and older than %s it does not count: look at what writes it",
				age.Round(time.Minute), fileAge)
		}
		return agreed(direct(p, in.File, in.Node))
	case Table:
		if in.TableErr != nil {
			return Link{}, failure{in.TableErr}
		}
		if in.Table == nil {
			return Link{}, errNone
		}
		if links := direct(p, in.Table, in.Node); len(links) > 0 {
			return agreed(links)
		}
		return in.labelled(p)
	}
	return Link{}, fmt.Errorf("it is not known, want one of %v", Sources())
}

// direct returns the links of a table that name a port itself, each once.
func direct(p *Port, t *v1alpha1.LinkTable, node string) (links []Link) {
	port := v1alpha1.LinkPort{Node: node, GUIDs: p.GUIDs, Names: p.names(), Number: p.PortID.Port, First: p.First}
	for i := range t.Links {
		l := &t.Links[i]
		if l.IsOf(&port) {
			links = appendNew(links, Link{l.Leaf, l.Port, l.Fabric})
		}
	}
	return links
}

// labelled returns the link by the labels of the node.
func (in *Inputs) labelled(p *Port) (Link, error) {
	var links []Link
	for i := range in.Table.Links {
		l := &in.Table.Links[i]
		if l.NodeLabel == "" {
			continue
		}
		if in.Labels == nil {
			return Link{}, failure{errors.New("the API server has not returned the node object yet")}
		}
		name := strings.NewReplacer("{ibdev}", p.IBDev, "{netdev}", p.Netdev).Replace(l.NodeLabel)
		if leaf := in.Labels[name]; leaf != "" {
			links = appendNew(links, Link{Leaf: leaf, Fabric: l.Fabric})
		}
	}
	return agreed(links)
}

// agreed returns the link on which several agree. If they name different ports of one leaf, the port is not known.
func agreed(links []Link) (Link, error) {
	if len(links) == 0 {
		return Link{}, errNone
	}
	out := links[0]
	var leaves []string
	for _, l := range links {
		leaves = appendNew(leaves, fmt.Sprintf("%.100q", l.Leaf))
		if l.Port != out.Port {
			out.Port = ""
		}
		if l.Fabric != out.Fabric {
			out.Fabric = ""
		}
	}
	if len(leaves) > 1 {
		return Link{}, fmt.Errorf("it is ambiguous: %s", text.Some(leaves, " or "))
	}
	return out, nil
}

// heard returns the link by the announcements on the interfaces of a port.
func (in *Inputs) heard(p *Port, chassis map[string][]string) (Link, error) {
	var links []Link
	var reasons []string
	for _, i := range p.Interfaces {
		heard := switches(in.Heard[i.Index])
		if len(heard) == 0 {
			reasons = append(reasons, fmt.Sprintf("nobody announces itself on %s", text.Terminal(i.Name)))
		}
		for _, n := range heard {
			name := nameOf(n)
			if len(chassis[name]) > 1 {
				return Link{}, fmt.Errorf("%d switches of this node call themselves %.100q", len(chassis[name]), name)
			}
			links = appendNew(links, Link{Leaf: name, Port: n.Port})
		}
	}
	link, err := agreed(links)
	if err == errNone && len(reasons) > 0 {
		err = errors.New(strings.Join(reasons, ", "))
	}
	return link, err
}

// switches returns the neighbors that are switches. If none says so, all of them may be.
func switches(all []networkd.Neighbor) []networkd.Neighbor {
	var out []networkd.Neighbor
	for _, n := range all {
		if n.Switch {
			out = append(out, n)
		}
	}
	if out == nil {
		return all
	}
	return out
}

// nameOf returns the name of a switch: its own, or its chassis.
func nameOf(n networkd.Neighbor) string {
	if n.System == "localhost" {
		return n.Chassis
	}
	return cmp.Or(n.System, n.Chassis)
}

// chassisOf returns which switches of HCAs call themselves by a name. Switches that nobody has named have the same one.
// On another interface anybody may use the name of a leaf.
func chassisOf(ports []Port, heard map[int][]networkd.Neighbor) map[string][]string {
	out := map[string][]string{}
	for i := range ports {
		for _, on := range ports[i].Interfaces {
			for _, n := range switches(heard[on.Index]) {
				out[nameOf(n)] = appendNew(out[nameOf(n)], n.Chassis)
			}
		}
	}
	return out
}

// planned returns the link of a port in the site's table, empty for none. A label of a node is no plan: it may be of
// another kind than what switches call themselves.
func planned(p *Port, in Inputs) Link {
	if in.Table == nil || in.TableErr != nil {
		return Link{}
	}
	link, err := agreed(direct(p, in.Table, in.Node))
	if err != nil || check(link) != nil {
		return Link{}
	}
	return link
}

func appendNew[T comparable](list []T, one T) []T {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}
