package traffic

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// someReport has an HCA in each state.
func someReport() *Report {
	hcas := machines(7, 1, true)
	results := []Result{
		{Pair: Pair{0, 1}, AToB: 392, BToA: 391}, {Pair: Pair{1, 2}, AToB: 391, BToA: 39.1},
		{Pair: Pair{2, 3}, AToB: 39.2, BToA: 391}, {Pair: Pair{3, 4}, AToB: 390, BToA: 390},
		{Pair: Pair{4, 5}, AToB: 200, BToA: 390},
		{Pair: Pair{5, 0}, AToB: 390, BToA: 390},
		{Pair: Pair{6, 0}, A: "n6/mlx5_0", B: "n0/mlx5_0",
			Error: "n6/mlx5_0: perftest failed with the exit code 1: \x1b[31mFailed"},
	}
	r := NewReport(hcas, results, 0.85)
	r.Started = time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	r.Ended = r.Started.Add(90 * time.Second)
	r.LeftOut = []model.HCA{{Node: "n8", Name: "pci-0", IBDev: "mlx5_0", Busy: "claim default/train has it"}}
	r.Drained = []string{"n2/mlx5_0"}
	return r
}

func TestReport(t *testing.T) {
	r := someReport()
	var words bytes.Buffer
	must.NoError(t, r.WriteText(&words))
	golden.Bytes(t, "report.txt", words.Bytes())
	test.StrNotContains(t, words.String(), "\x1b", test.Sprint("a pod's words reach the terminal"))
	test.False(t, r.Complete(), test.Sprint("it is complete"))
	if slow := Slowest(r.HCAs); len(slow) != 1 || slow[0].String() != "n2/mlx5_0" {
		t.Errorf("slow: %+v", slow)
	}
}

// TestRecord: what a test keeps of a node is read back as it was, and nothing else is read.
func TestRecord(t *testing.T) {
	records := someReport().Records(map[string]string{"n0": "v1.2.3"}, "v1.2.4")
	if len(records) != 7 || records[0].Driver != "v1.2.3" {
		t.Fatalf("%+v", records)
	}
	for i, want := range map[int]string{
		0: "good", 2: "slow: alone 39.2Gb/s", 4: "unclear: alone 390Gb/s", 6: "not measured",
	} {
		test.Eq(t, want, records[i].HCAs[0].Recorded(), test.Sprint("a record has no peers to name"))
	}
	for _, r := range records {
		object, err := r.ConfigMap()
		must.NoError(t, err)
		got, err := ReadRecord(object)
		must.NoError(t, err)
		a, _ := json.Marshal(got)
		if b, _ := json.Marshal(r); !bytes.Equal(a, b) {
			t.Errorf("%s, want %s", a, b)
		}
	}
	for data, want := range map[string]string{
		"":                         "EOF",
		"{}":                       "it is of node",
		`{"node": "n0"} {}`:        "more than one JSON value",
		`{"node": "n0", "x": 1}`:   "unknown field",
		strings.Repeat(" ", 1<<17): "want at most 65536",
		`{"node": "n0", "hcas": [{"state": "fine"}]}`:                                                `unknown state "fine"`,
		`{"node": "n0", "hcas": [{"state": "good", "aloneGbps": -1}]}`:                               "a rate below 0",
		`{"node": "n0", "hcas": [{"state": "good", "aloneGbps": 1e300}]}`:                            "a rate below 0",
		`{"node": "n1", "hcas": []}`:                                                                 "it is of node",
		`{"node": "n0", "hcas": [` + strings.Repeat(`{"state":"good"},`, 256) + `{"state":"good"}]}`: "257 HCAs",
	} {
		object := &corev1.ConfigMap{Data: map[string]string{recordKey: data}}
		object.Name = "rdma-test.n0"
		if _, err := ReadRecord(object); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", data, err, want)
		}
	}
}

func FuzzReadRecord(f *testing.F) {
	records := someReport().Records(nil, "")
	object, err := records[0].ConfigMap()
	must.NoError(f, err)
	f.Add(object.Data[recordKey])
	f.Fuzz(func(t *testing.T, data string) {
		object := &corev1.ConfigMap{Data: map[string]string{recordKey: data}}
		object.Name = "rdma-test.n0"
		r, err := ReadRecord(object)
		if err == nil && (r.Node != "n0" || len(r.HCAs) > maxRecorded) {
			t.Errorf("%+v", r)
		}
	})
}
