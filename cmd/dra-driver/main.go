// Command dra-driver is the Kubernetes DRA node driver for RDMA devices. It runs as a DaemonSet, which the chart in
// deployments/helm installs. Package dra describes it.
package main

import (
	"context"
	"flag"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// The exit codes of some commands, beside those of all programs.
const (
	// exitUnapplied is of explain and slices.
	exitUnapplied = 3
	// exitUnknown is of probe: Node Problem Detector takes 1 for a problem, and any code above for not known.
	exitUnknown = 3
)

func main() {
	logTo(text.Writer(os.Stderr))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	klog.Flush()
	os.Exit(code)
}

// logTo sends the log through a writer that escapes control characters. klog itself escapes neither messages nor values
// of several lines.
func logTo(w io.Writer) {
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	for name, value := range map[string]string{"logtostderr": "false", "one_output": "true", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			panic(err) // klog has removed the flag
		}
	}
	klog.SetOutput(entries{w})
}

// entries writes the entries of a log: klog writes each by one call. Each line of an entry after the first begins with a
// tab, so that no message of others looks like an entry, and an entry is bounded.
type entries struct{ w io.Writer }

const maxEntry = 64 << 10

func (e entries) Write(p []byte) (int, error) {
	entry := text.Bound(strings.TrimSuffix(string(p), "\n"), maxEntry)
	_, err := io.WriteString(e.w, strings.ReplaceAll(entry, "\n", "\n\t")+"\n")
	return len(p), err
}

// run is the whole program, with its arguments, environment and outputs as parameters.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, newRoot(env), args, stdout, stderr, func(err error) string { return "dra-driver: " + err.Error() })
}

func newRoot(env func(string) string) *cobra.Command {
	root := newServe(env)
	cli.AddVersion(root, "dra-driver")
	root.AddCommand(newProbe(env), newStatus(env), newExplain(env), newSlices(env), newUninstallCheck(env),
		newInstallCheck(env), newContainerCheck())
	return root
}
