package hook

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Count is a number of handles or objects, as the kernel's rdma controller has it.
type Count int64

// NoLimit is "max" in rdma.max: no limit, and more than every other Count.
const NoLimit Count = math.MaxInt32

// Resources are what the rdma controller counts of a device.
type Resources struct {
	Handles Count `json:"handles"` // hca_handle: open contexts
	Objects Count `json:"objects"` // hca_object: verbs objects, such as queue pairs
}

// Wanted are the resources that a --limit names; 0 stands for one that it does not.
type Wanted struct {
	Handles Count `json:"handles,omitempty"`
	Objects Count `json:"objects,omitempty"`
}

// DeviceLimit is the value of a --limit.
type DeviceLimit struct {
	Device string // the kernel's name, mlx5_0
	Want   Wanted
}

// ParseLimit reads IBDEV:handles=N,objects=M, where one of the two may be left out.
// Zero is refused: it would leave a device that no program can open.
func ParseLimit(s string) (DeviceLimit, error) {
	colon := strings.LastIndexByte(s, ':')
	if colon <= 0 || strings.ContainsAny(s[:colon], " \t\n") {
		return DeviceLimit{}, badLimit(s, `does not start with the name of an RDMA device and a colon, such as mlx5_0:handles=64`)
	}
	want, err := ParseWanted(s[colon+1:])
	return DeviceLimit{Device: s[:colon], Want: want}, err
}

// ParseWanted reads handles=N,objects=M, as it stands behind the device in a --limit.
func ParseWanted(s string) (w Wanted, err error) {
	for rest, more := s, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, ",")
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

func badLimit(s, why string) error {
	return errors.New("parse limit " + strconv.Quote(s) + ": it " + why)
}

// parseMax finds the line of a device in rdma.max, such as
// "mlx5_0 hca_handle=2 hca_object=max ". found is false where the controller does not
// know the device.
func parseMax(text, device string) (r Resources, found bool, err error) {
	for len(text) > 0 {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		name, rest, _ := strings.Cut(line, " ")
		if name != device {
			continue
		}
		handles, err1 := parseMaxField(rest, "hca_handle=")
		objects, err2 := parseMaxField(rest, "hca_object=")
		if err1 != nil || err2 != nil {
			return Resources{}, true, errors.New("parse " + strconv.Quote(line) + ": want hca_handle and hca_object, each max or a number")
		}
		return Resources{handles, objects}, true, nil
	}
	return Resources{}, false, nil
}

func parseMaxField(line, name string) (Count, error) {
	for len(line) > 0 {
		var word string
		word, line, _ = strings.Cut(line, " ")
		if value, ok := strings.CutPrefix(word, name); ok {
			var c Count
			err := c.UnmarshalText([]byte(value))
			return c, err
		}
	}
	return 0, strconv.ErrSyntax
}

// String is how the kernel has it: "max" or a number.
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
		return errors.New("parse count " + strconv.Quote(string(text)) + ": it is neither max nor a number of 31 bits")
	}
	*c = Count(n)
	return nil
}

// String is for people.
func (r Resources) String() string {
	return "handles " + r.Handles.String() + ", objects " + r.Objects.String()
}

// String is for people; what is not asked for is not in it.
func (w Wanted) String() string {
	switch {
	case w.Objects == 0:
		return "handles " + w.Handles.String()
	case w.Handles == 0:
		return "objects " + w.Objects.String()
	}
	return Resources(w).String()
}
