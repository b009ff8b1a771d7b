package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
	"github.com/rdma-dev/dra-driver-rdma/test/docs"
)

// shell runs the commands of a document as a user types them: in a namespace, with kubectl rdma installed.
type shell struct {
	*testbed.Namespace
	t   *testing.T
	dir string
	env []string
}

func newShell(t *testing.T, n *testbed.Namespace, dir string) *shell {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config")
	must.NoError(t, os.WriteFile(config, []byte(testbed.ReadFile(t, n.Kubeconfig())), 0o600))
	s := &shell{n, t, dir, []string{"KUBECONFIG=" + config, "PLUGIN=" + filepath.Dir(n.Plugin().Path)}}
	s.run("kubectl config set-context --current --namespace=" + n.Name)
	return s
}

// run returns what a command prints. It must succeed.
func (s *shell) run(command string) string {
	s.t.Helper()
	cmd := s.Command(s.t.Context(), "sh", "-euc", "PATH=$PLUGIN:$PATH; "+command)
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Dir = s.dir
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	must.NoError(s.t, s.Run(cmd), must.Sprintf("%s\n%s", command, out.String()))
	return out.String()
}

// step is a command of a document, with the lines that it is to print.
type step struct {
	command string
	prints  []string
}

// steps are the commands of a document, in its order.
func steps(t *testing.T, page *docs.Page) (all []step) {
	t.Helper()
	for _, block := range page.Blocks {
		if block.Language != "console" {
			continue
		}
		for line := range strings.Lines(block.Text) {
			line = strings.TrimRight(line, "\n")
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				all = append(all, step{command: command})
				continue
			}
			last := &all[len(all)-1]
			last.prints = append(last.prints, line)
		}
	}
	return all
}

// generated are the parts of names that Kubernetes generates, and the number of the pod, which may be on either node.
var generated = regexp.MustCompile(`rails-gpu-[01]-[a-z0-9]{5}-pairs-[a-z0-9]{5}`)

// compare wants a command to have printed what the document shows: all of it, or where the document has "...", these
// lines in this order. The document's user works in the namespace default.
func (s *shell) compare(want step, printed string) {
	s.t.Helper()
	plain := func(text string) string {
		return generated.ReplaceAllString(strings.ReplaceAll(text, s.Name+"/", "default/"), "CLAIM")
	}
	got := strings.Split(strings.TrimRight(plain(printed), "\n"), "\n")
	for i := range got {
		got[i] = strings.TrimRight(got[i], " ")
	}
	rest, whole := got, !slices.Contains(want.prints, "...")
	for _, line := range want.prints {
		if line == "..." {
			continue
		}
		at := slices.Index(rest, plain(line))
		if at < 0 || whole && at != 0 {
			s.t.Errorf("the document lets %s print %q, and it prints\n%s", want.command, line, strings.Join(got, "\n"))
			return
		}
		rest = rest[at+1:]
	}
	if whole && len(rest) > 0 {
		s.t.Errorf("%s prints more than the document shows: %q", want.command, rest)
	}
}
