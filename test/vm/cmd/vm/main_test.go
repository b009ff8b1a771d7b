package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/shoenig/test"
)

func TestBadUsage(t *testing.T) {
	for _, line := range []string{
		"dance", "build now", "build --no-such-flag", "run", "run --mem lots true", "run --rdma rxe0 true",
		"run --rdma mlx5_0:eth0 true", "run --timeout soon true", "capture", "capture --name x DIR",
	} {
		var out, talk bytes.Buffer
		if code := run(t.Context(), strings.Fields(line), &out, &talk); code != 2 || out.Len() > 0 || !strings.Contains(talk.String(), "vm help") {
			t.Errorf("vm %s: status %d, stdout %q, stderr %q", line, code, &out, &talk)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, line := range []string{"", "help", "--help", "run --help"} {
		var out bytes.Buffer
		test.Eq(t, 0, run(t.Context(), strings.Fields(line), &out, &out), test.Sprintf("vm %s: status", line))
		for name := range verbs {
			test.StrContains(t, out.String(), "vm "+name, test.Sprintf("vm %s says nothing of %q", line, name))
		}
	}
}
