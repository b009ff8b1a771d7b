package doctor

import (
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func TestAcknowledge(t *testing.T) {
	r := newReport([]finding.Finding{
		noActivePort.Found(finding.Error, "no port of this host is ACTIVE"),
		portDown.Found(finding.Warning, "2 ports down").About("mlx5_1/1", "mlx5_2/1"),
		umadModule.Found(finding.Info, "the module ib_umad is not loaded"),
		nodesOK.Found(finding.OK, "nodes are well"),
		notSeen.Found(finding.NotSeen, "the sea: no window").About("the sea"),
	})
	r.Runtimes = []string{"podman 4.3.1"}
	ports := []rdma.Port{{Number: 1}}
	r.aliases = aliasesOf([]rdma.HCA{
		{IBDev: "mlx5_1", Name: "pci-0000-18-00-0", Ports: ports}, {IBDev: "mlx5_2", Ports: ports},
	})
	for _, c := range []struct {
		entries []string
		worst   finding.Severity
		summary string
	}{
		{nil, finding.Error, "1 error, 1 warning, 1 note, 1 ok"},
		{[]string{"port-down"}, finding.Error, "1 error, 0 warnings, 1 note, 1 ok, 1 acknowledged"},
		{[]string{"port-down", "no-active-port"}, finding.Acknowledged,
			"0 errors, 0 warnings, 1 note, 1 ok, 2 acknowledged"},
		{
			[]string{"no-active-port", "port-down=mlx5_1/1"}, finding.Warning,
			"0 errors, 1 warning, 1 note, 1 ok, 1 acknowledged",
		},
		{[]string{"no-active-port", "port-down=mlx5_1/1", "port-down=mlx5_2/1"}, finding.Acknowledged,
			"0 errors, 0 warnings, 1 note, 1 ok, 2 acknowledged"},
		{[]string{"no-active-port", "port-down=pci-0000-18-00-0/1", "port-down=mlx5_2"}, finding.Acknowledged,
			"0 errors, 0 warnings, 1 note, 1 ok, 2 acknowledged"},
		{[]string{"no-active-port", "port-down=pci-0000-18-00-0/2", "port-down=mlx5_2/1"}, finding.Warning,
			"0 errors, 1 warning, 1 note, 1 ok, 1 acknowledged"},
		{[]string{"no-active-port=mlx5_1/1"}, finding.Error, "1 error, 1 warning, 1 note, 1 ok"},
		{[]string{"umad-module", "nodes-ok"}, finding.Error, "1 error, 1 warning, 1 note, 1 ok"}, // no problems
	} {
		got := r.Acknowledge(c.entries)
		if got.Summary.Worst() != c.worst || got.Summary.String() != c.summary+", 1 not seen" || len(got.Findings) != 5 ||
			len(got.Runtimes) != 1 {
			t.Errorf("%q: worst %s, %s", c.entries, got.Summary.Worst(), got.Summary)
		}
	}
	ofHCA := newReport([]finding.Finding{portDown.Found(finding.Warning, "its ports are down").About("mlx5_1")})
	ofHCA.aliases = r.aliases
	test.Eq(t, finding.Acknowledged, ofHCA.Acknowledge([]string{"port-down=pci-0000-18-00-0"}).Summary.Worst())
	text := render(t, r.Acknowledge([]string{"port-down"}))
	test.StrContains(t, text, "\nACKNOWLEDGED\n  port-down            2 ports down\n    on:  mlx5_1/1, mlx5_2/1\n")
	if r.Summary.Worst() != finding.Error || r.Findings[1].Severity != finding.Warning {
		t.Error("the report itself has changed")
	}
}

func TestCheckAcknowledged(t *testing.T) {
	test.NoError(t, CheckAcknowledged([]string{"guid-zero", "port-down=mlx5_1/1"}))
	for e, end := range map[string]string{"": "shows them", "=mlx5_1/1": "shows them", "mlx5_1/1": "shows them",
		"port-dwon": "did you mean port-down?", "port-down=": "or port-down=SUBJECT as doctor shows it"} {
		err := CheckAcknowledged([]string{"guid-zero", e})
		must.ErrorContains(t, err, `"`+e+`"`)
		test.StrHasSuffix(t, end, err.Error())
	}
}
