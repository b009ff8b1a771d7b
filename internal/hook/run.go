package hook

import (
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/usable"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podcgroup"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// Exit codes. A container runtime fails the start of the container for every code but ExitOK.
const (
	ExitOK      = 0
	ExitDenied  = 1
	ExitUsage   = 2
	ExitState   = 3
	ExitTimeout = 4
	ExitProcess = 5
	ExitAway    = 6

	ExitUnusable = 7
)

// ExitCodes are the meanings of the exit codes.
var ExitCodes = exitcode.List{
	ExitOK:      "done, or nothing to do",
	ExitDenied:  "a limit may not be raised or set, and --on-denied is fail",
	ExitUsage:   "a flag has an invalid value",
	ExitState:   "standard input has no OCI state, or one without a usable pid",
	ExitTimeout: "no complete OCI state arrived within --timeout",
	ExitProcess: "the process is gone or a limit cannot be changed, and --on-denied is fail",
	ExitAway: "a device of --present or an interface of --interface is not in the container's network namespace, " +
		"a node of --node belongs to another device, or the check failed",
	ExitUnusable: "the container cannot use a device of --hca, and --on-unusable is fail",
}

// Usage is the text of --help.
func Usage() string { return args.Usage + ExitCodes.Help() }

// IO is the environment of Run.
type IO struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Open   func(pid int) (Process, error) // OpenProcess
	Files  Files                          // HostFiles

	Devices Devices // HostDevices
	// Container opens the container of a bundle and process: usable.OpenBundle.
	Container func(pid int, bundle string) (*usable.Container, error)
}

// Run is the program. It returns the exit code. argv does not include the program's name. If a limit cannot be set, Run
// returns ExitOK unless the policy is Fail: by default a container with a small limit is better than none.
func Run(argv []string, version string, std IO) int {
	deadline := time.Now()
	opts, warnings, err := args.Parse(argv)
	deadline = deadline.Add(opts.Timeout)
	printLines(std.Stderr, warnings...)
	switch {
	case err != nil:
		printLines(std.Stderr, err.Error()+" (see rdma-hook --help)")
		return ExitUsage
	case opts.Help:
		io.WriteString(std.Stdout, Usage())
		return ExitOK
	case opts.Version:
		// As the other programs print it (package base/version), which would link runtime/debug.
		io.WriteString(std.Stdout, "rdma-hook "+version+" "+runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH+"\n")
		return ExitOK
	}
	st, err := ReadState(std.Stdin, deadline)
	if err != nil {
		printLines(std.Stderr, err.Error())
		if errors.Is(err, ErrStateTimeout) {
			return ExitTimeout
		}
		return ExitState
	}
	return act(opts, st, warnings, version, deadline, std)
}

// act applies the limits to the state's process, and writes the report.
func act(opts args.Options, st State, warnings []string, version string, deadline time.Time, std IO) int {
	reason, warning, err := st.check()
	if err != nil {
		printLines(std.Stderr, err.Error())
		return ExitState
	}
	addWarning := func(warning string) {
		if warning != "" {
			printLines(std.Stderr, warning)
			warnings = append(warnings, warning)
		}
	}
	addWarning(warning)
	if reason == "" {
		warning, err := checkDevices(opts, st, std, deadline)
		if err != nil {
			printLines(std.Stderr, err.Error())
			return ExitAway
		}
		addWarning(warning)
	}
	report := newReport(opts, st, warnings, version)
	if reason == "" {
		if opts.Claim != "" {
			report.HostNetwork = inHostNetwork(report.PID)
			if uid := podOf(std.Files, report.PID); uid != "" {
				report.PodUID = uid // the kubelet named the cgroup: annotations cannot change it
			}
		}
		err = setAll(&report, opts, deadline, std)
		report.Checks = checkUse(report, opts, st.Bundle, deadline, std)
	} else {
		report.Outcome, report.Message = record.Skipped, "nothing to do: "+reason
	}
	printReport(report, opts, std.Stderr)
	for _, err := range []error{
		reportBy(deadline, opts.Report, report, WriteReport), reportBy(deadline, opts.LastReport, report, WriteLastReport),
	} {
		if err != nil {
			printLines(std.Stderr, err.Error()+"; the container is not affected")
		}
	}
	if code := exitCode(err, opts.OnDenied); code != ExitOK || opts.OnUnusable != args.FailUnusable ||
		!keepsFromStarting(report.Checks) {
		return code
	}
	return ExitUnusable
}

// podOf returns the UID of the pod of a process, which is in the name of its cgroup, "" for a process outside of pods.
func podOf(f Files, pid int) string {
	text, err := f.Read("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return ""
	}
	return podcgroup.OfProcess(text)
}

// checkDevices checks the nodes of the container, and the devices and interfaces in its network namespace.
func checkDevices(o args.Options, st State, std IO, deadline time.Time) (warning string, err error) {
	d, pid := std.Devices, *st.PID
	if len(o.Nodes) > 0 {
		if warning, err = d.CheckNodes(o.Nodes); err != nil {
			if own := ownNodes(o.Nodes, st, std, deadline); len(own) < len(o.Nodes) {
				warning, err = d.CheckNodes(own)
			}
		}
	}
	if len(o.Presences) > 0 {
		err = errors.Join(err, CheckPresences(d, pid, o.Presences, deadline))
	}
	if len(o.Interfaces) > 0 {
		err = errors.Join(err, CheckInterfaces(d, pid, o.Interfaces, deadline))
	}
	return warning, err
}

// ownNodes returns those of the nodes that the container has: a spec of the host names the nodes of all its HCAs. It
// returns all if that cannot be seen in half of the time that is left, and if the container has none of them.
func ownNodes(all []args.NodeOwner, st State, std IO, deadline time.Time) []args.NodeOwner {
	var names []string // not read after the deadline
	if std.Container == nil || !doBy(deadline.Add(-time.Until(deadline)/2), func() {
		if c, err := std.Container(*st.PID, st.Bundle); err == nil {
			defer c.Close()
			names, _ = c.Nodes()
		}
	}) {
		return all
	}
	own := slices.DeleteFunc(slices.Clone(all), func(n args.NodeOwner) bool { return !slices.Contains(names, n.Node) })
	if len(own) == 0 {
		return all
	}
	return own
}

// setAll sets the limits, and records the results.
func setAll(r *record.Report, opts args.Options, deadline time.Time, std IO) (err error) {
	result := Result{Outcome: record.Skipped, Message: "nothing to do: no --memlock is given"}
	if opts.Memlock != 0 {
		result, err = raise(std.Open, r.PID, opts)
	}
	r.Outcome, r.Message, r.Before, r.After = result.Outcome, result.Message, result.Before, result.After
	if len(opts.Limits) > 0 {
		var e error
		r.Limits, e = setLimitsBy(deadline, std.Files, r.PID, opts)
		err = errors.Join(err, e)
	}
	return err
}

// printReport prints the results.
func printReport(r record.Report, opts args.Options, stderr io.Writer) {
	isIgnored := func(o record.Outcome) bool {
		return opts.OnDenied == args.Ignore && (o == record.Denied || o == record.Unenforced)
	}
	if !isIgnored(r.Outcome) && (opts.Memlock != 0 || len(r.Limits) == 0) {
		printLines(stderr, r.Message)
	}
	for _, l := range r.Limits {
		if !isIgnored(l.Outcome) {
			printLines(stderr, l.Message)
		}
	}
	for _, c := range r.Checks {
		if c.Severity.Bad() {
			printLines(stderr, c.String())
		}
	}
}

func raise(open func(int) (Process, error), pid int, opts args.Options) (Result, error) {
	p, err := open(pid)
	if err != nil {
		err = wrap("raise locked-memory limit", err)
		return Result{Outcome: record.Failed, Message: err.Error()}, err
	}
	return Raise(p, opts.Memlock, opts.OnDenied)
}

func exitCode(err error, policy args.OnDenied) int {
	switch {
	case err == nil || policy != args.Fail:
		return ExitOK
	case errors.Is(err, ErrDenied):
		return ExitDenied
	}
	return ExitProcess
}

func newReport(opts args.Options, st State, warnings []string, version string) record.Report {
	r := record.Report{
		ReportVersion: record.Version,
		HookVersion:   version,
		ID:            st.ID,
		Status:        st.Status,
		Time:          time.Now().UTC().Truncate(time.Second),
		Claim:         opts.Claim,
		PodUID:        st.PodUID,
		Container:     st.Container,
		Warnings:      warnings,
	}
	if st.PID != nil {
		r.PID = *st.PID
	}
	if opts.Memlock != 0 {
		r.Want = &opts.Memlock
	}
	return r
}

// doBy runs f, and reports whether f returned before the deadline. After the deadline f may go on running.
func doBy(deadline time.Time, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-time.After(time.Until(deadline)):
		return false
	}
}

// setLimitsBy sets the limits before the deadline. The kernel changes one cgroup at a time, so another change can delay
// this one.
func setLimitsBy(deadline time.Time, f Files, pid int, opts args.Options) ([]record.DeviceLimit, error) {
	var results []record.DeviceLimit // not read after the deadline, nor is err
	var err error
	if doBy(deadline, func() { results, err = SetLimits(f, pid, opts.Limits, opts.OnDenied) }) {
		return results, err
	}
	return eachLimit(opts.Limits, opts.OnDenied,
		func(args.Limit) (record.DeviceLimit, error) { return record.DeviceLimit{}, os.ErrDeadlineExceeded })
}

// reportBy writes the report before the deadline. The path may be on a file system that hangs. It is "" for no report.
func reportBy(deadline time.Time, path string, r record.Report, write func(string, record.Report) error) error {
	var err error // not read after the deadline
	if path == "" || doBy(deadline, func() { err = write(path, r) }) {
		return err
	}
	return wrap("write report to "+strconv.Quote(path), os.ErrDeadlineExceeded)
}

// printLines prints lines for people. Nothing may depend on them, because a runtime shows them only if the hook fails,
// or never.
// A line may repeat what a state or a spec says: it stays one line, is bounded, and acts on no terminal.
func printLines(w io.Writer, lines ...string) {
	for _, line := range lines {
		io.WriteString(w, "rdma-hook: "+strings.Map(shown, line[:min(len(line), maxLine)])+"\n")
	}
}

const maxLine = 4 << 10

func shown(r rune) rune {
	if !strconv.IsGraphic(r) {
		return '?'
	}
	return r
}
