package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestModelledHost: the commands that README.md and the tutorial of podman have for machines without an HCA print what
// stands there.
func TestModelledHost(t *testing.T) {
	for _, host := range []string{"bin/hgx", "bin/dgx"} { // machine extract does not replace files
		path := filepath.Join(checkout, host)
		must.NoError(t, os.RemoveAll(path))
		t.Cleanup(func() { test.NoError(t, os.RemoveAll(path)) })
	}
	for _, name := range []string{"README.md", "docs/quickstart-podman.md"} {
		page, err := Read(filepath.Join(checkout, name))
		must.NoError(t, err)
		blocks := 0
		for _, block := range page.Blocks {
			if strings.HasPrefix(block.Text, "$ go run ") {
				blocks++
				test.Eq(t, block.Text, run(t, block.Text), test.Sprintf("%s:%d: the commands print", name, block.Line))
			}
		}
		test.Eq(t, 1, blocks, test.Sprintf("%s has other blocks with commands for a modelled host", name))
	}
}

// run runs the commands of a block, and returns them with what they print now.
func run(t *testing.T, block string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(block) {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		out.WriteString(line)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = checkout
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &said
		must.NoError(t, cmd.Run(), must.Sprintf("%s%s", command, &said))
	}
	return out.String()
}
