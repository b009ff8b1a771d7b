package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

// TestHelpFits: the help of every command fits a terminal of 100 columns and 40 lines.
func TestHelpFits(t *testing.T) {
	names := []string{"", "help", "completion"}
	var walk func(prefix string, cmd *cobra.Command)
	walk = func(prefix string, cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			names = append(names, strings.TrimSpace(prefix+" "+sub.Name()))
			walk(prefix+" "+sub.Name(), sub)
		}
	}
	walk("", newRoot())
	must.GreaterEq(t, 15, len(names), must.Sprintf("commands %q", names))
	for _, name := range names {
		r := cdigen(t, append([]string{"help"}, strings.Fields(name)...)...)
		r.expect(t, exitOK, "")
		test.LessEq(t, 65, strings.Count(r.stdout, "\n"), test.Sprintf("the help of %q", name))
		for line := range strings.Lines(r.stdout) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 && !strings.HasPrefix(line, "  cdi-gen ") {
				t.Errorf("the help of %q has a line of %d columns: %s", name, n, line)
			}
		}
	}
}

// TestTablesFit: on a host of 40 HCAs no table is wider than 160 columns, and doctor prints no command that fills the
// screen. Programs get it whole.
func TestTablesFit(t *testing.T) {
	root := t.TempDir()
	must.NoError(t, fixture.Synthesize(root, 40))
	for _, args := range [][]string{{"list"}, {"topology"}, {"topology", "-o", "matrix"}, {"doctor"}} {
		r := cdigen(t, append(args, "--host-root", root)...)
		test.GreaterEq(t, 9, strings.Count(r.stdout, "\n"), test.Sprintf("%q says %q", args, r.stdout))
		for line := range strings.Lines(r.stdout) {
			limit := 161
			if args[0] == "doctor" {
				limit = 600 // commands are not wrapped
			}
			if n := utf8.RuneCountInString(line); n > limit {
				t.Errorf("%q has a line of %d columns: %s", args, n, line)
			}
		}
	}
}
