package args

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// OnDenied is the policy for a limit that may not be raised or set. Its words are those of cdi-gen, the driver and the
// chart too.
type OnDenied string

// The values of --on-denied.
const (
	Clamp  OnDenied = "clamp"  // raise the soft limit to the hard limit, and print a warning
	Fail   OnDenied = "fail"   // do not change the limit, and fail the container's start
	Ignore OnDenied = "ignore" // do not change the limit, and print nothing
)

// OnDeniedValues are all values.
var OnDeniedValues = []OnDenied{Clamp, Fail, Ignore}

// OnDeniedUsage is the help of the flag in programs that write the hook's arguments.
const OnDeniedUsage = "`POLICY` of denied limits: clamp, fail, ignore"

// ParseOnDenied parses a value of --on-denied.
func ParseOnDenied(s string) (OnDenied, error) {
	if !slices.Contains(OnDeniedValues, OnDenied(s)) {
		return "", fmt.Errorf("want clamp, fail or ignore, not %q", s)
	}
	return OnDenied(s), nil
}

// OnUnusable is the policy for an HCA that a container cannot use.
type OnUnusable string

// The values of --on-unusable.
const (
	Warn           OnUnusable = "warn"   // report it
	FailUnusable   OnUnusable = "fail"   // fail the container's start for a fault that is certain
	IgnoreUnusable OnUnusable = "ignore" // do not check
)

// OnUnusableValues are all values.
var OnUnusableValues = []OnUnusable{Warn, FailUnusable, IgnoreUnusable}

// OnUnusableUsage is the help of the flag in programs that write the hook's arguments.
const OnUnusableUsage = "`POLICY` of unusable HCAs: warn, fail, ignore"

// ParseOnUnusable parses a value of --on-unusable.
func ParseOnUnusable(s string) (OnUnusable, error) {
	if !slices.Contains(OnUnusableValues, OnUnusable(s)) {
		return "", fmt.Errorf("want warn, fail or ignore, not %q", s)
	}
	return OnUnusable(s), nil
}

// HCA is an RDMA device that a container may get, with its verbs node.
type HCA struct {
	IBDev  string // mlx5_0
	Node   string // uverbs0
	Driver string // of the kernel: mlx5_core
}

// ParseHCA parses IBDEV:NODE:DRIVER.
func ParseHCA(s string) (h HCA, err error) {
	rest, driver, _ := cutLast(s, ":")
	device, node, ok := cutLast(rest, ":")
	number, isVerbs := strings.CutPrefix(node, "uverbs")
	if _, err := strconv.ParseUint(number, 10, 32); !ok || !isVerbs || err != nil || device == "" || driver == "" ||
		strings.ContainsAny(s, "/ \t\n") {
		return HCA{}, fmt.Errorf("%q is not IBDEV:NODE:DRIVER, such as mlx5_0:uverbs0:mlx5_core", s)
	}
	return HCA{device, node, driver}, nil
}

func (h HCA) flag() string { return h.IBDev + ":" + h.Node + ":" + h.Driver }

// Count is a number of handles or objects in the kernel's rdma controller.
type Count int64

// NoLimit is "max" in rdma.max: no limit. It is higher than every other Count.
const NoLimit Count = math.MaxInt32

// Wanted are the resources of a --limit. 0 means that the flag does not name the resource.
type Wanted struct {
	Handles Count `json:"handles,omitempty"`
	Objects Count `json:"objects,omitempty"`
}

// Limit is the value of a --limit: how much of an RDMA device the container may use.
type Limit struct {
	IBDev string // the kernel's name, mlx5_0
	Want  Wanted
}

// ParseLimit parses IBDEV:handles=N,objects=M. One of the two resources may be missing. Zero is an error, because no
// program could open the device.
func ParseLimit(s string) (Limit, error) {
	device, counts, _ := cutLast(s, ":")
	if device == "" || device == s || strings.ContainsAny(device, " \t\n") {
		return Limit{}, badLimit(s, "does not start with the name of an RDMA device and a colon, such as "+
			"mlx5_0:handles=64")
	}
	want, err := ParseWanted(counts)
	return Limit{IBDev: device, Want: want}, err
}

// flag formats the limit: mlx5_0:handles=64,objects=16384.
func (l Limit) flag() string {
	var parts []string
	if l.Want.Handles != 0 {
		parts = append(parts, "handles="+strconv.FormatInt(int64(l.Want.Handles), 10))
	}
	if l.Want.Objects != 0 {
		parts = append(parts, "objects="+strconv.FormatInt(int64(l.Want.Objects), 10))
	}
	return l.IBDev + ":" + strings.Join(parts, ",")
}

// ParseWanted parses handles=N,objects=M, the part of a --limit after the device.
func ParseWanted(s string) (w Wanted, err error) {
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(part, "=")
		field := &w.Handles
		switch name {
		case "handles":
		case "objects":
			field = &w.Objects
		default:
			return Wanted{}, badLimit(s, "has "+strconv.Quote(name)+" where handles or objects is expected")
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n <= 0 {
			return Wanted{}, badLimit(s, "has "+name+"="+strconv.Quote(value)+", which is not a whole number above 0")
		}
		if *field != 0 {
			return Wanted{}, badLimit(s, "has "+name+" twice")
		}
		*field = min(Count(n), NoLimit)
	}
	return w, nil
}

func badLimit(s, fault string) error {
	return fmt.Errorf("parse limit %q: it %s", s, fault)
}

// String returns the kernel's form: "max" or a number.
func (c Count) String() string {
	if c >= NoLimit {
		return "max"
	}
	return strconv.FormatInt(int64(c), 10)
}

// MarshalText writes String.
func (c Count) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (c *Count) UnmarshalText(text []byte) error {
	if string(text) == "max" {
		*c = NoLimit
		return nil
	}
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil {
		return fmt.Errorf("parse count %q: it is neither max nor a number of 31 bits", text)
	}
	*c = Count(n)
	return nil
}

// String is for people. It omits resources that are not requested.
func (w Wanted) String() string {
	switch {
	case w.Objects == 0:
		return "handles " + w.Handles.String()
	case w.Handles == 0:
		return "objects " + w.Objects.String()
	}
	return "handles " + w.Handles.String() + ", objects " + w.Objects.String()
}

// Presence is an RDMA device that the container's network namespace must have, with its verbs node.
type Presence struct {
	IBDev  string // mlx5_0
	Uverbs string // uverbs0
}

// ParsePresence parses IBDEV:UVERBS.
func ParsePresence(s string) (Presence, error) {
	device, uverbs, ok := cutLast(s, ":")
	if !ok || device == "" || !strings.HasPrefix(uverbs, "uverbs") || strings.ContainsAny(s, "/ \t\n") {
		return Presence{}, fmt.Errorf("%q is not IBDEV:UVERBS, such as mlx5_0:uverbs0", s)
	}
	return Presence{device, uverbs}, nil
}

func (p Presence) flag() string { return p.IBDev + ":" + p.Uverbs }

// NodeOwner is a device node of the container, and the RDMA device that it must belong to.
type NodeOwner struct {
	IBDev string // mlx5_0
	Node  string // uverbs0
	PCI   string // 0000:3b:00.0, "" if the device is not a PCI device
	SF    string // the number of a subfunction, "" for none
}

// ParseNodeOwner parses IBDEV:NODE[@PCI[/SF]].
func ParseNodeOwner(s string) (n NodeOwner, err error) {
	names, slot, hasSlot := cutLast(s, "@")
	n.IBDev, n.Node, _ = cutLast(names, ":")
	n.PCI, n.SF, _ = strings.Cut(slot, "/")
	number, err := strconv.ParseUint(n.SF, 10, 32)
	badSF := n.SF != "" && (err != nil || strconv.FormatUint(number, 10) != n.SF)
	if n.IBDev == "" || n.Class() == "" || hasSlot != (n.PCI != "") || strings.ContainsAny(s, " \t\n") ||
		strings.Contains(names, "/") || strings.HasPrefix(n.PCI, ".") || badSF {
		return NodeOwner{}, fmt.Errorf("%q is not IBDEV:NODE@PCI, such as mlx5_0:uverbs0@0000:3b:00.0, or with a "+
			"subfunction mlx5_2:uverbs2@0000:c1:00.0/88", s)
	}
	return n, nil
}

// cutLast cuts at the last separator, because the kernel allows names of devices with one.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// flag formats the owner: mlx5_2:uverbs2@0000:c1:00.0/88.
func (n NodeOwner) flag() string {
	flag := n.IBDev + ":" + n.Node
	if n.PCI != "" {
		flag += "@" + n.PCI
	}
	if n.SF != "" {
		flag += "/" + n.SF
	}
	return flag
}

// Class returns the sysfs class of the node, "" if the node has an unknown name.
func (n NodeOwner) Class() string {
	kind := strings.TrimRight(n.Node, "0123456789")
	if _, err := strconv.ParseUint(n.Node[len(kind):], 10, 32); err != nil {
		return ""
	}
	switch kind {
	case "uverbs":
		return "infiniband_verbs"
	case "umad", "issm":
		return "infiniband_mad"
	}
	return ""
}

// Interface is a network interface that the container's network namespace must have.
type Interface struct {
	Name  string // rdma0
	Alias string // the driver sets it; it identifies the interface
}

func (i Interface) flag() string { return i.Name + ":" + i.Alias }

// maxInterfaceName is IFNAMSIZ of linux/if.h, without the NUL at the end.
const maxInterfaceName = 15

// ParseInterface parses NAME:ALIAS. Names of interfaces contain no colon.
func ParseInterface(s string) (Interface, error) {
	name, alias, ok := strings.Cut(s, ":")
	if !ok || name == "" || alias == "" || len(name) > maxInterfaceName || strings.ContainsAny(s, " \t\n") {
		return Interface{}, fmt.Errorf("%q is not NAME:ALIAS, such as rdma0:rdma.dev/claim/1", s)
	}
	return Interface{name, alias}, nil
}
