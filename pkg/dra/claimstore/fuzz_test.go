package claimstore_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/types"
)

// FuzzRecord: whatever stands in a record, it is the plan of its claim, of no claim, or an error; an
// HCA that it holds alone is given to nobody else; and no name in it leads out of the store.
func FuzzRecord(f *testing.F) {
	devices := func(list string) string {
		return `{"version":1,"bootID":"boot-2","claim":{"uid":"u1","devices":[` + list + `]}}`
	}
	for _, seed := range []string{
		devices(`{"request":"r0","pool":"node1","device":"d1","adminAccess":true,` +
			`"settings":{"memlock":"4Gi","nodes":["verbs","mad"],"env":["nccl"]}}`),
		"", "null", "[]", "{}", `{"version":1,"bootID":"boot-2","claim":null}`,
		devices(`{"device":"d1"}`),
		devices(`{"device":"shared-d1","shareID":"s"},{"device":"group-g","members":["d1","d2"],"cards":["d3"]}`),
		devices(`{"device":"../../x"},{"device":"group-"},{"device":"","cards":["a/b"]}`),
		`{"version":99,"bootID":"boot-2","claim":{"uid":"u1"}}`, `{"version":-1,"bootID":"boot-1","claim":{"uid":"u1"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		outer := t.TempDir()
		dir := filepath.Join(outer, "store")
		s := open(t, dir, thisBoot)
		write(t, string(data), dir, "claims", "u1.json")
		p, err := s.Get("u1")
		if p != nil && (err != nil || p.UID != "u1") {
			t.Fatalf("plan of claim %q, error %v", p.UID, err)
		}
		plans, listErr := s.List()
		test.True(t, (err == nil) == (listErr == nil) && (p != nil) == (len(plans) == 1),
			test.Sprintf("the list is %v, %v; the record %v, %v", plans, listErr, p, err))
		if p != nil && s.Claim(context.Background(), p) == nil {
			for _, d := range p.Devices {
				alone := planOf("u2", d.HCAs()[0])
				if !d.AdminAccess && s.Claim(context.Background(), alone) == nil {
					t.Errorf("HCA %s is given to two claims", d.HCAs()[0])
				}
			}
		}
		if entries, err := os.ReadDir(outer); err != nil || len(entries) != 1 {
			t.Errorf("there are files beside the store: %v, %v", entries, err)
		}
		if _, err := s.Void(); err != nil {
			t.Error(err)
		}
		again, _ := s.Get("u1")
		test.True(t, (again == nil) == (p == nil) || err != nil,
			test.Sprint("a record of this boot was taken for one of another"))
		test.NoError(t, s.Remove(types.UID("u1")))
	})
}

// FuzzRecall: whatever a driver has left, the next one gets a value or an error.
func FuzzRecall(f *testing.F) {
	for _, seed := range []string{
		"", "{}", `{"version":1,"bootID":"boot-2","value":{"a":1}}`, `{"version":1,"bootID":"boot-2"}`,
		`{"version":1,"bootID":"boot-2","value":[]}`,
		`{"version":2,"bootID":"boot-2","value":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		s := open(t, dir, thisBoot)
		write(t, string(data), dir, "hcas.json")
		var value map[string]json.RawMessage
		if found, err := s.Memory().Recall("hcas", &value); found && err != nil || !found && value != nil && err == nil {
			t.Errorf("found %v, %v, error %v", found, value, err)
		}
		must.NoError(t, s.Memory().Remember("hcas", map[string]int{"a": 1}))
		found, err := s.Memory().Recall("hcas", &value)
		test.True(t, found && err == nil && string(value["a"]) == "1",
			test.Sprintf("what was remembered over it: %v, %v, %v", found, value, err))
	})
}
