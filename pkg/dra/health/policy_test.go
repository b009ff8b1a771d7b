package health_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
)

func TestTaints(t *testing.T) {
	verdict := health.Verdict{Device: "d", IBDev: "mlx5_0"}
	for _, c := range health.Conditions() {
		verdict.Faults = append(verdict.Faults, health.Fault{Condition: c, Confirmed: true, Message: string(c)})
	}
	golden.Cases(t, "taints", func(t *testing.T, p health.Policy) string {
		last, out := "", ""
		for _, taint := range p.Taints(verdict) {
			test.True(t, taint.Key > last && taint.Value == "" && taint.TimeAdded == nil,
				test.Sprintf("taint %v after %q", taint, last))
			test.Nil(t, validation.IsQualifiedName(taint.Key), test.Sprintf("key %q", taint.Key))
			last = taint.Key
			out += fmt.Sprintf("%s: %s\n", taint.Key, taint.Effect)
		}
		return out
	})
	test.LessEq(t, resourceapi.DeviceTaintsMaxLength, len((health.Policy{Informational: true}).Taints(verdict)),
		test.Sprint("taints, the API takes"))
}

func TestParseEffect(t *testing.T) {
	for _, tc := range []struct{ name, effect, want, err string }{
		{"port-down", "NoExecute", "port-down NoExecute", ""},
		{"rdma.dev/no-address", "Off", "no-address Off", ""},
		{"port-up", "None", "", `"port-up" is no taint of this driver, want one of [device-gone`},
		{"port-down", "noexecute", "", `"noexecute" is no effect, want one of [None NoSchedule NoExecute Off]`},
	} {
		c, effect, err := health.ParseEffect(tc.name, tc.effect)
		if tc.err == "" && (err != nil || string(c)+" "+string(effect) != tc.want) {
			t.Errorf("%s=%s: %s %s, error %v", tc.name, tc.effect, c, effect, err)
		}
		if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%s=%s: error is %v, want %q", tc.name, tc.effect, err, tc.err)
		}
	}
}

func FuzzParseEffect(f *testing.F) {
	f.Add("port-down", "NoExecute")
	f.Add("rdma.dev/rdma.dev/port-down", "")
	f.Fuzz(func(t *testing.T, name, effect string) {
		c, parsed, err := health.ParseEffect(name, effect)
		if err == nil && (!strings.HasSuffix(name, string(c)) || string(parsed) != effect) {
			t.Errorf("%q, %q became %q, %q", name, effect, c, parsed)
		}
	})
}

// TestMessageFits: the kubelet's API takes 1024 bytes, and no half runes.
func TestMessageFits(t *testing.T) {
	v := health.Verdict{IBDev: "mlx5_0",
		Faults: []health.Fault{{Condition: health.PortDown, Message: strings.Repeat("ä", 600)}}}
	for range 2 {
		if m := v.Message(); len(m) > 1024 || len(m) < 1000 || !strings.HasSuffix(m, "ä...") {
			t.Errorf("message has %d bytes and ends in %q", len(m), m[len(m)-10:])
		}
		v.IBDev = "mlx5_10"
	}
}

func TestNotes(t *testing.T) {
	tr := health.Transition{Device: "pci-0000-3b-00-0", IBDev: "mlx5_0", Condition: health.PortDown, Holds: true,
		Message: "port 1 is DOWN"}
	got, want := tr.Note(), "RDMA device pci-0000-3b-00-0 (mlx5_0): port 1 is DOWN"
	test.True(t, got == want && tr.Grave(), test.Sprintf("note is %q, want %q", got, want))
	tr.Holds = false
	got, want = tr.Note(), "RDMA device pci-0000-3b-00-0 (mlx5_0): over: port 1 is DOWN"
	test.True(t, got == want && !tr.Grave(), test.Sprintf("note is %q, want %q", got, want))
}
