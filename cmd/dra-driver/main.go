// Command dra-driver is the Kubernetes DRA node driver for RDMA devices. It runs as a DaemonSet, which the chart in
// deployments/helm installs. Package dra describes it.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/version"
)

// The exit codes of the program. The help of each command describes them.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
	// exitUnapplied is of explain and slices alone, and exitUnknown of probe: Node Problem Detector takes 1 for a problem,
	// and any code above for not known.
	exitUnapplied = 3
	exitUnknown   = 3
)

const badFlags = "bad flags or arguments"

// usageError is an error in flags, arguments or environment.
type usageError struct{ error }

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
	stdout, stderr = text.Writer(stdout), text.Writer(stderr)
	root := newRoot(env)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintln(stderr, text.Message("dra-driver: "+text.WithHint(err.Error(), cmd.CommandPath())))
		return exitUsage
	}
	fmt.Fprintln(stderr, text.Message("dra-driver: "+err.Error()))
	if _, ok := errors.AsType[unappliedError](err); ok {
		return exitUnapplied
	}
	if _, ok := errors.AsType[unknownError](err); ok {
		return exitUnknown
	}
	return exitError
}

// help prints the help of a command. Cobra's own help does not wrap lines.
func help(cmd *cobra.Command, _ []string) {
	cmd.Print(text.Help(strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)) + "\n\n" + cmd.UsageString()))
}

func newRoot(env func(string) string) *cobra.Command {
	root := newServe(env)
	root.SilenceErrors, root.SilenceUsage = true, true
	printVersion(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.SetHelpFunc(help)
	root.AddCommand(newProbe(env), newStatus(env), newExplain(env), newSlices(env), newUninstallCheck(env),
		newInstallCheck(env),
		newContainerCheck(), &cobra.Command{
			Use:   "version",
			Short: "Print the version",
			Args:  noArgs,
			Run:   func(cmd *cobra.Command, _ []string) { cmd.Println(version.String("dra-driver")) },
		})
	return root
}

// printVersion adds the flag --version. It must not use cobra's own flag, which needs text/template. Templates find
// methods by name, so the linker would keep every method, and the program would grow by half.
func printVersion(root *cobra.Command) {
	wanted, serve := root.Flags().Bool("version", false, "print the version"), root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *wanted {
			cmd.Println(version.String("dra-driver"))
			return nil
		}
		return serve(cmd, args)
	}
}

// noArgs rejects arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unknown argument %q", args[0])}
	}
	return nil
}
