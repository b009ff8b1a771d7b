package genl

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// recorded returns the attributes of an answer of a real kernel. The directory's README says how they were recorded.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile("testdata/" + name + ".hex")
	must.NoError(t, err)
	return unhex(t, string(content))
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	must.NoError(t, err)
	return b
}

// These answers no virtual machine gives. They are recorded ones of an interface without counter or state, with the
// attribute that a driver of a card adds (net/ethtool/stats.c stat_put, net/ethtool/linkstate.c linkstate_fill_reply).
const (
	symbolErrors = `
		18000280 08000100 04000000 09000200 65746830 00000000
		08000500 00000000
		24000480 08000200 00000000 08000300 11000000 10000480 0c000000 2a00000000000000`
	withoutCable = `
		18000180 08000100 04000000 09000200 65746830 00000000
		05000200 00000000 05000500 04000000`
	port       = `08000100 07000000 09000200 72786530 00000000 08000300 01000000`
	portNetdev = `08003200 02000000 09003300 65746830 00000000`
	cableIssue = `
		18000180 08000100 04000000 09000200 65746830 00000000
		05000200 00000000 05000500 05000000`
)

// TestAnswers: what kernels have answered is read.
func TestAnswers(t *testing.T) {
	for name, want := range map[string]Reporter{
		"reporter-healthy": {Name: "fw"},
		"reporter-error":   {Name: "fw", Failed: true, Errors: 1},
		"reporter-again":   {Name: "fw", Errors: 1, Recoveries: 1},
	} {
		got, err := decodeReporter(recorded(t, name))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	for _, tc := range []struct {
		name   string
		answer []byte
		decode func([]byte) (*uint64, error)
		want   *uint64
	}{
		{"fec", recorded(t, "fec"), decodeFEC, new(uint64(4))},
		{"fec-none", recorded(t, "linkstate"), decodeFEC, nil},
		{"phy-none", recorded(t, "phy-none"), decodePHY, nil},
		{"symbol errors", unhex(t, symbolErrors), decodePHY, new(uint64(42))},
	} {
		got, err := tc.decode(tc.answer)
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tc.name, err, diff)
		}
	}
	for name, answer := range map[string][]byte{
		"": recorded(t, "linkstate"), "another state": unhex(t, cableIssue), "no cable": unhex(t, withoutCable),
	} {
		if got, err := decodeNoCable(answer); got != (name == "no cable") || err != nil {
			t.Errorf("%q: no cable is %v, %v", name, got, err)
		}
	}
	for answer, want := range map[string]rdma.Software{
		port + portNetdev: {Index: 7, Netdev: "eth0"}, port: {Index: 7}, // fill_port_info, drivers/infiniband/core/nldev.c
	} {
		got, err := decodePort(unhex(t, answer), 7, "rxe0")
		if err != nil || *got != want {
			t.Errorf("%s: %+v, %v, want %+v", answer, got, err, want)
		}
	}
	for ibdev, index := range map[string]uint32{"rxe1": 7, "rxe0": 8} {
		if got, err := decodePort(unhex(t, port), index, ibdev); err == nil {
			t.Errorf("an answer about another device than %d %s is %+v", index, ibdev, got)
		}
	}
	for _, b := range []string{"", "0800", "04007280", "0c0072800800730066770000"} {
		if r, err := decodeReporter(unhex(t, b)); err == nil {
			t.Errorf("%q is the reporter %+v", b, r)
		}
	}
}

// FuzzAnswers: whatever the kernel answers, nothing fails, and no reporter is without a name.
func FuzzAnswers(f *testing.F) {
	for _, name := range []string{"reporter-healthy", "reporter-error", "fec", "phy-none", "linkstate"} {
		f.Add(recorded(f, name))
	}
	for _, text := range []string{symbolErrors, withoutCable, "0500040001", "050004800100"} {
		f.Add(unhex(f, text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := string(b)
		if _, err := decodeReporter(b); err == nil && len(b) < 8 {
			t.Errorf("%x is a reporter", b)
		}
		decodeFEC(b)
		decodePHY(b)
		decodeNoCable(b)
		test.Eq(t, before, string(b), test.Sprintf("%x has become %x", before, b))
	})
}
