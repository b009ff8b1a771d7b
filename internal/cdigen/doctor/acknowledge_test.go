package doctor

import (
	"testing"

	"github.com/shoenig/test"
)

func TestAcknowledge(t *testing.T) {
	r := newReport([]Finding{
		found("no-active-port", Error, "no port of this host is ACTIVE"),
		found("port-down", Warning, "2 ports down").about("mlx5_1/1", "mlx5_2/1"),
		found("umad-module", Info, "the module ib_umad is not loaded"),
		found("nodes-ok", OK, "nodes are well"),
	}, []Unseen{{"the sea", "no window"}})
	r.Runtimes = []string{"podman 4.3.1"}
	for _, c := range []struct {
		entries []string
		worst   Severity
		summary string
	}{
		{nil, Error, "1 error, 1 warning, 1 note, 1 ok"},
		{[]string{"port-down"}, Error, "1 error, 0 warnings, 1 note, 1 ok, 1 acknowledged"},
		{[]string{"port-down", "no-active-port"}, Acknowledged, "0 errors, 0 warnings, 1 note, 1 ok, 2 acknowledged"},
		{[]string{"no-active-port", "port-down=mlx5_1/1"}, Warning, "0 errors, 1 warning, 1 note, 1 ok, 1 acknowledged"},
		{[]string{"no-active-port", "port-down=mlx5_1/1", "port-down=mlx5_2/1"}, Acknowledged,
			"0 errors, 0 warnings, 1 note, 1 ok, 2 acknowledged"},
		{[]string{"no-active-port=mlx5_1/1"}, Error, "1 error, 1 warning, 1 note, 1 ok"},
		{[]string{"umad-module", "nodes-ok"}, Error, "1 error, 1 warning, 1 note, 1 ok"}, // no problems
	} {
		got := r.Acknowledge(c.entries)
		if got.Worst() != c.worst || got.Summary.String() != c.summary || len(got.Findings) != 4 || len(got.Unseen) != 1 ||
			len(got.Runtimes) != 1 {
			t.Errorf("%q: worst %s, %s", c.entries, got.Worst(), got.Summary)
		}
	}
	text := render(t, r.Acknowledge([]string{"port-down"}))
	test.StrContains(t, text, "\nACKNOWLEDGED\n  port-down            2 ports down\n    on:  mlx5_1/1, mlx5_2/1\n")
	if r.Worst() != Error || r.Findings[1].Severity != Warning {
		t.Error("the report itself has changed")
	}
}

func TestCheckAcknowledged(t *testing.T) {
	test.NoError(t, CheckAcknowledged([]string{"guid-zero", "port-down=mlx5_1/1"}))
	for _, e := range []string{"", "port-dwon", "port-down=", "=mlx5_1/1", "mlx5_1/1"} {
		test.ErrorContains(t, CheckAcknowledged([]string{"guid-zero", e}), `"`+e+`"`, test.Sprintf("%q", e))
	}
}
