package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/reference"
)

// TestReference: the reference pages are what the program says of itself.
func TestReference(t *testing.T) {
	t.Setenv("HOME", "/home/you") // a default is below it
	t.Setenv("KUBECACHEDIR", "")
	golden.File(t, "../../docs/reference/kubectl-rdma.md", reference.Page(newRoot(genericiooptions.IOStreams{})))
	golden.Section(t, "../../docs/reference/exit-codes.md", "kubectl-rdma", reference.ExitCodes("kubectl rdma", exitCodes)+
		reference.ExitCodes("kubectl rdma why", whyCodes)+reference.ExitCodes("kubectl rdma policy test", policyCodes)+
		reference.ExitCodes("kubectl rdma test nodes", testCodes))
}

// TestHelpOfCommands: the plugin's own help lists all of kubectl's flags. That of each command has three of them, and says
// so.
func TestHelpOfCommands(t *testing.T) {
	help := func(args ...string) string {
		var out bytes.Buffer
		if code := run(t.Context(), append(args, "--help"), nil, &out, &out); code != 0 {
			t.Fatalf("%q --help: exit code %d\n%s", args, code, &out)
		}
		return out.String()
	}
	const flag = "--certificate-authority"
	test.StrContains(t, help(), flag, test.Sprint("the plugin's help lacks"))
	for _, c := range newRoot(genericiooptions.IOStreams{}).Commands() {
		said := help(c.Name())
		for _, few := range []string{"--namespace", "--context", "--kubeconfig"} {
			test.StrContains(t, said, few, test.Sprintf("the help of %s lacks", c.Name()))
		}
		if strings.Contains(said, flag) || !strings.Contains(said, `Use "kubectl rdma --help" for kubectl's flags`) {
			t.Errorf("the help of %s is\n%s", c.Name(), said)
		}
	}
}
