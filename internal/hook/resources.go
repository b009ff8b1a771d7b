package hook

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Count is a number of handles or objects in the kernel's rdma controller.
type Count int64

// NoLimit is "max" in rdma.max: no limit. It is higher than every other Count.
const NoLimit Count = math.MaxInt32

// Resources are the counts of the rdma controller for a device.
type Resources struct {
	Handles Count `json:"handles"` // hca_handle: open contexts
	Objects Count `json:"objects"` // hca_object: verbs objects, such as queue pairs
}

// Wanted are the resources of a --limit. 0 means that the flag does not name the resource.
type Wanted struct {
	Handles Count `json:"handles,omitempty"`
	Objects Count `json:"objects,omitempty"`
}

// DeviceLimit is the value of a --limit.
type DeviceLimit struct {
	Device string // the kernel's name, mlx5_0
	Want   Wanted
}

// ParseLimit parses IBDEV:handles=N,objects=M. One of the two resources may be missing. Zero is an error, because no
// program could open the device.
func ParseLimit(s string) (DeviceLimit, error) {
	colon := strings.LastIndexByte(s, ':')
	if colon <= 0 || strings.ContainsAny(s[:colon], " \t\n") {
		return DeviceLimit{}, badLimit(s, "does not start with the name of an RDMA device and a colon, such as "+
			"mlx5_0:handles=64")
	}
	want, err := ParseWanted(s[colon+1:])
	return DeviceLimit{Device: s[:colon], Want: want}, err
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

// parseMax finds the line of a device in rdma.max, such as "mlx5_0 hca_handle=2 hca_object=max ". found is false if the
// controller does not know the device.
func parseMax(text, device string) (r Resources, found bool, err error) {
	for line := range strings.SplitSeq(text, "\n") {
		name, rest, _ := strings.Cut(line, " ")
		if name != device {
			continue
		}
		handles, err1 := parseMaxField(rest, "hca_handle=")
		objects, err2 := parseMaxField(rest, "hca_object=")
		if err1 != nil || err2 != nil {
			return Resources{}, true, fmt.Errorf("parse %q: want hca_handle and hca_object, each max or a number", line)
		}
		return Resources{handles, objects}, true, nil
	}
	return Resources{}, false, nil
}

func parseMaxField(line, name string) (Count, error) {
	for word := range strings.SplitSeq(line, " ") {
		if value, ok := strings.CutPrefix(word, name); ok {
			var c Count
			err := c.UnmarshalText([]byte(value))
			return c, err
		}
	}
	return 0, strconv.ErrSyntax
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

// String is for people.
func (r Resources) String() string {
	return "handles " + r.Handles.String() + ", objects " + r.Objects.String()
}

// String is for people. It omits resources that are not requested.
func (w Wanted) String() string {
	switch {
	case w.Objects == 0:
		return "handles " + w.Handles.String()
	case w.Handles == 0:
		return "objects " + w.Objects.String()
	}
	return Resources(w).String()
}
