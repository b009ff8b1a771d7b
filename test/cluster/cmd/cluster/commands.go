package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

const help = `cluster runs a real one-node Kubernetes cluster on this host, in namespaces of
its own: the host's files, network, sysctls and devices are not touched.

  cluster build [--kubernetes 1.35]    build the programs that the cache lacks
  cluster up [--host-root DIR]         bring the cluster up; leave a running one alone
             [--feature-gates A=true,B=false] [--runtime-config G/V=true] [--v N]
             [--kubernetes 1.34|1.35|1.36] with that version of Kubernetes itself
  cluster down [--keep]                end it and remove everything but the cache
                                       (--keep: leave the state directory for reading)
  cluster status                       the components, and whether the node is ready
  cluster exec -- COMMAND [ARG...]     run a command inside: kubectl, ctr, helm, a test
  cluster load IMAGE.tar...            import image archives into containerd
  cluster component start|restart NAME start it, if it does not run, and wait for it
  cluster component stop [--signal TERM] NAME
                                       signal it and wait for its end (20 s, then KILL)
  cluster component signal [--signal HUP] NAME
  cluster logs NAME                    print a component's log

Components: %s; logs also takes "supervisor".
Every command takes --state-dir DIR (logs, keys, data). The programs are kept in
$DRA_RDMA_CACHE, by default dra-driver-rdma in the user's cache directory.
Exit status: 0 done, 1 failed, 2 bad usage, 3 no cluster is running; exec passes on its
command's.
`

// verb is one command: flags are parsed before do is called.
type verb func(ctx context.Context, a *args) error

// args are a command's flags, operands and outputs.
type args struct {
	cluster.Options
	flags          *flag.FlagSet
	operands       []string
	stdout, stderr io.Writer

	gates, signal string
	keep          bool
}

var verbs = map[string]verb{
	"build": build, "up": up, "down": down, "status": status, "exec": execute,
	"load": load, "component": component, "logs": logs,
}

func run(ctx context.Context, argv []string, stdout, stderr io.Writer) error {
	if len(argv) == 0 || slices.Contains([]string{"help", "-h", "--help"}, argv[0]) ||
		len(argv) > 1 && slices.Contains([]string{"-h", "--help"}, argv[1]) {
		_, err := fmt.Fprintf(stdout, help, strings.Join(cluster.Components(), ", "))
		return err
	}
	do, ok := verbs[argv[0]]
	if !ok {
		return fmt.Errorf("%w: unknown command %q", errUsage, argv[0])
	}
	a := newArgs(argv[0], stdout, stderr)
	operands := argv[1:]
	if argv[0] == "component" && len(operands) > 0 {
		a.operands, operands = operands[:1], operands[1:]
	}
	if err := a.flags.Parse(operands); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	a.operands = append(a.operands, a.flags.Args()...)
	if err := a.parseGates(); err != nil {
		return err
	}
	if err := a.Validate(); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return do(ctx, a)
}

func newArgs(name string, stdout, stderr io.Writer) *args {
	a := &args{flags: flag.NewFlagSet(name, flag.ContinueOnError), stdout: stdout, stderr: stderr}
	a.flags.SetOutput(io.Discard)
	a.Progress = stderr
	a.flags.StringVar(&a.StateDir, "state-dir", "", "")
	switch name {
	case "build":
		a.flags.StringVar(&a.Kubernetes, "kubernetes", "", "")
	case "up":
		a.flags.StringVar(&a.Kubernetes, "kubernetes", "", "")
		a.flags.StringVar(&a.HostRoot, "host-root", "", "")
		a.flags.StringVar(&a.gates, "feature-gates", "", "")
		a.flags.StringVar(&a.RuntimeConfig, "runtime-config", "", "")
		a.flags.IntVar(&a.Verbosity, "v", 0, "")
	case "down":
		a.flags.BoolVar(&a.keep, "keep", false, "")
	case "component":
		a.flags.StringVar(&a.signal, "signal", "TERM", "")
	}
	return a
}

func (a *args) parseGates() error {
	if a.gates == "" {
		return nil
	}
	a.FeatureGates = map[string]bool{}
	for _, gate := range strings.Split(a.gates, ",") {
		name, value, _ := strings.Cut(gate, "=")
		on, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%w: parse feature gate %q: want NAME=true or NAME=false", errUsage, gate)
		}
		a.FeatureGates[name] = on
	}
	return nil
}

// expect checks the number of operands; most < 0 stands for any number.
func (a *args) expect(what string, least, most int) error {
	if n := len(a.operands); n < least || most >= 0 && n > most {
		return fmt.Errorf("%w: want %s", errUsage, what)
	}
	return nil
}

func build(ctx context.Context, a *args) error {
	if err := a.expect("no operand", 0, 0); err != nil {
		return err
	}
	path, err := cluster.Build(ctx, a.Options)
	if err == nil {
		_, err = fmt.Fprintln(a.stdout, path)
	}
	return err
}

func up(ctx context.Context, a *args) error {
	if err := a.expect("no operand", 0, 0); err != nil {
		return err
	}
	_, err := cluster.Up(ctx, a.Options)
	return err
}

func down(ctx context.Context, a *args) error {
	if err := a.expect("no operand", 0, 0); err != nil {
		return err
	}
	return cluster.Down(ctx, a.Options, a.keep)
}

func status(ctx context.Context, a *args) error {
	c, err := cluster.Open(ctx, a.Options)
	if err != nil {
		return err
	}
	states, err := c.Status(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tPID\tSTATE\tSINCE")
	for _, s := range states {
		state, since := "running", time.Since(s.Started).Round(time.Second).String()
		if !s.Running() {
			state, since = "not running: "+s.Ended, ""
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", s.Name, s.Pid, state, since)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := c.Ready(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "node %s is ready\n", cluster.NodeName)
	return err
}

func execute(ctx context.Context, a *args) error {
	if err := a.expect("-- COMMAND [ARG...]", 1, -1); err != nil {
		return err
	}
	c, err := cluster.Open(ctx, a.Options)
	if err != nil {
		return err
	}
	// The terminal signals the command too; it decides what an interrupt means.
	cmd := c.Command(context.WithoutCancel(ctx), a.operands[0], a.operands[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, a.stdout, a.stderr
	wait, err := c.Begin(cmd)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	return wait()
}

func load(ctx context.Context, a *args) error {
	if err := a.expect("IMAGE.tar...", 1, -1); err != nil {
		return err
	}
	c, err := cluster.Open(ctx, a.Options)
	if err != nil {
		return err
	}
	return c.Load(ctx, a.operands...)
}

func component(ctx context.Context, a *args) error {
	const usage = "start|stop|restart|signal NAME"
	if err := a.expect(usage, 2, 2); err != nil {
		return err
	}
	c, err := cluster.Open(ctx, a.Options)
	if err != nil {
		return err
	}
	sig, err := parseSignal(a.signal)
	if err != nil {
		return err
	}
	switch name := a.operands[1]; a.operands[0] {
	case "start":
		return c.Start(ctx, name)
	case "restart":
		return c.Restart(ctx, name)
	case "stop":
		return c.Stop(ctx, name, sig)
	case "signal":
		return c.Signal(ctx, name, sig)
	default:
		return fmt.Errorf("%w: want %s, not %q", errUsage, usage, a.operands[0])
	}
}

// parseSignal takes KILL, SIGKILL and 9.
func parseSignal(s string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(s); err == nil && n > 0 {
		return syscall.Signal(n), nil
	}
	if sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG")); sig != 0 {
		return sig, nil
	}
	return 0, fmt.Errorf("%w: unknown signal %q", errUsage, s)
}

func logs(ctx context.Context, a *args) error {
	if err := a.expect("NAME", 1, 1); err != nil {
		return err
	}
	path, err := cluster.LogFile(a.Options, a.operands[0])
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the log of %q: %w", a.operands[0], err)
	}
	defer f.Close()
	_, err = io.Copy(a.stdout, f)
	return err
}
