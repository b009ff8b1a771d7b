package traffic

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Label is on all objects of tests. Its value is the name of the test's Job, and in ConfigMaps with results
// "results".
const (
	Label        = rdma.Domain + "/test"
	labelResults = "results"
	recordKey    = "result.json"
)

// Record is what the ConfigMap of a node keeps of the node's last test.
type Record struct {
	Node string    `json:"node"`
	Time time.Time `json:"time"`
	// Driver is the version of the node's driver, Tool that of this program.
	Driver string `json:"driver,omitempty"`
	Tool   string `json:"tool,omitempty"`
	// HCAs have neither errors nor peers: these have no bound.
	HCAs []Verdict `json:"hcas"`
}

// Bounds of a record that is read. Whoever may write ConfigMaps can write anything.
const (
	maxRecord   = 64 << 10 // bytes
	maxRecorded = 256      // HCAs of a node
	maxRecords  = 20_000
)

// Records returns what to keep of a report, one for each node.
func (r *Report) Records(drivers map[string]string, tool string) (out []Record) {
	at := map[string]int{}
	for i := range r.HCAs {
		v := r.HCAs[i]
		v.Errors, v.SlowWith = nil, nil
		if _, known := at[v.Node]; !known {
			at[v.Node] = len(out)
			out = append(out, Record{
				Node: v.Node, Time: r.Ended.UTC().Truncate(time.Second), Tool: tool,
				Driver: text.Bound(drivers[v.Node], validation.LabelValueMaxLength),
			})
		}
		of := &out[at[v.Node]]
		of.HCAs = append(of.HCAs, v)
	}
	return out
}

// ConfigMap returns the object that keeps a record.
func (r *Record) ConfigMap() (*corev1.ConfigMap, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the result of node %s: %w", r.Node, err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: recordName(r.Node), Labels: map[string]string{Label: labelResults}},
		Data:       map[string]string{recordKey: string(data)},
	}, nil
}

// recordName returns the name of a node's ConfigMap.
func recordName(node string) string {
	const prefix = "rdma-test."
	if len(prefix)+len(node) > validation.DNS1123SubdomainMaxLength {
		node = fmt.Sprintf("%.16x", sha256.Sum256([]byte(node)))
	}
	return prefix + node
}

// ReadRecord reads the record of a ConfigMap. The ConfigMap's name must be that of the record's node, so that no
// namespace has two records of a node.
func ReadRecord(object *corev1.ConfigMap) (*Record, error) {
	fail := func(err error) (*Record, error) {
		return nil, fmt.Errorf("read the test's result in ConfigMap %s/%s: %w", object.Namespace, object.Name, err)
	}
	data := object.Data[recordKey]
	if len(data) > maxRecord {
		return fail(fmt.Errorf("it has %d bytes, want at most %d", len(data), maxRecord))
	}
	d := json.NewDecoder(bytes.NewReader([]byte(data)))
	d.DisallowUnknownFields()
	r := &Record{}
	if err := d.Decode(r); err != nil {
		return fail(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fail(errors.New("it has more than one JSON value"))
	}
	if recordName(r.Node) != object.Name {
		return fail(fmt.Errorf("it is of node %s", text.Foreign(r.Node)))
	}
	if len(r.HCAs) > maxRecorded {
		return fail(fmt.Errorf("it has %d HCAs, want at most %d", len(r.HCAs), maxRecorded))
	}
	for _, h := range r.HCAs {
		if !slices.Contains([]State{Good, Slow, Unclear, NotMeasured}, h.State) {
			return fail(fmt.Errorf("it has the unknown state %s", text.Foreign(string(h.State))))
		}
		for _, rate := range []float64{h.Alone, h.Together, h.Least} {
			if rate < 0 || rate > 1e6 || math.IsNaN(rate) {
				return fail(errors.New("it has a rate below 0 or above 1e6 Gb/s"))
			}
		}
	}
	return r, nil
}
