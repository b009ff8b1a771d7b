package hook

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
)

// Resources are the counts of the rdma controller for a device.
type Resources struct {
	Handles args.Count `json:"handles"` // hca_handle: open contexts
	Objects args.Count `json:"objects"` // hca_object: verbs objects, such as queue pairs
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

func parseMaxField(line, name string) (args.Count, error) {
	for word := range strings.SplitSeq(line, " ") {
		if value, ok := strings.CutPrefix(word, name); ok {
			var c args.Count
			err := c.UnmarshalText([]byte(value))
			return c, err
		}
	}
	return 0, strconv.ErrSyntax
}

// String is for people.
func (r Resources) String() string {
	return "handles " + r.Handles.String() + ", objects " + r.Objects.String()
}
