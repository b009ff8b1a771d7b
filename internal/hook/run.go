package hook

import (
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/podcgroup"
)

// Exit codes. A container runtime stops the start of the container at any other
// than ExitOK.
const (
	ExitOK      = 0
	ExitDenied  = 1
	ExitUsage   = 2
	ExitState   = 3
	ExitTimeout = 4
	ExitProcess = 5
	ExitAway    = 6
)

// ExitCodes are what they mean.
var ExitCodes = exitcode.List{
	ExitOK:      "done, or nothing to do",
	ExitDenied:  "a limit may not be raised or set, and --on-denied is fail",
	ExitUsage:   "a flag has a value that is not understood",
	ExitState:   "standard input holds no OCI state, or one without a usable pid",
	ExitTimeout: "no complete OCI state arrived within --timeout",
	ExitProcess: "the process is gone or a limit cannot be changed, and --on-denied is fail",
	ExitAway: "a device of --present or an interface of --interface is not in the container's network namespace, a node of --node is that of another device, " +
		"or that cannot be found out",
}

// IO is what Run has of the outside.
type IO struct {
	Stdin  int // a file descriptor, since it is read with a deadline
	Stdout io.Writer
	Stderr io.Writer
	Open   func(pid int) (Process, error) // OpenProcess
	Files  Files                          // HostFiles

	Devices Devices // HostDevices
}

// Run is the program: it returns the exit code. args do not hold the program's
// name. Except for bad input it returns ExitOK unless the policy is Fail: a
// container with a small limit is better than none, unless someone says not.
func Run(args []string, version string, std IO) int {
	deadline := time.Now()
	opts, warnings, err := ParseOptions(args)
	deadline = deadline.Add(opts.Timeout)
	say(std.Stderr, warnings...)
	switch {
	case err != nil:
		say(std.Stderr, err.Error()+" (see rdma-hook --help)")
		return ExitUsage
	case opts.Help:
		io.WriteString(std.Stdout, Usage())
		return ExitOK
	case opts.Version:
		io.WriteString(std.Stdout, "rdma-hook "+version+"\n")
		return ExitOK
	}
	st, err := ReadState(std.Stdin, deadline)
	if err != nil {
		say(std.Stderr, err.Error())
		if errors.Is(err, ErrStateTimeout) {
			return ExitTimeout
		}
		return ExitState
	}
	return act(opts, st, warnings, version, deadline, std)
}

// act applies the limits to the state's process and reports.
func act(opts Options, st State, warnings []string, version string, deadline time.Time, std IO) int {
	reason, warning, err := st.check()
	if err != nil {
		say(std.Stderr, err.Error())
		return ExitState
	}
	if warning != "" {
		say(std.Stderr, warning)
		warnings = append(warnings, warning)
	}
	if reason == "" {
		warning, err := opts.checkNodes(std.Devices)
		if err = errors.Join(err, opts.checkNamespace(std.Devices, *st.PID, deadline)); err != nil {
			say(std.Stderr, err.Error())
			return ExitAway
		}
		if warning != "" {
			say(std.Stderr, warning)
			warnings = append(warnings, warning)
		}
	}
	report := newReport(opts, st, warnings, version)
	if reason == "" {
		if opts.Claim != "" {
			report.HostNetwork = inHostNetwork(report.PID)
			if uid := podOf(std.Files, report.PID); uid != "" {
				report.PodUID = uid // the kubelet's word, which no annotation changes
			}
		}
		err = report.apply(opts, deadline, std)
	} else {
		report.Outcome, report.Message = Skipped, "nothing to do: "+reason
	}
	report.talk(opts, std.Stderr)
	if opts.Report != "" {
		if err := reportBy(deadline, opts.Report, report); err != nil {
			say(std.Stderr, err.Error()+"; the container is not affected")
		}
	}
	return exitCode(err, opts.OnDenied)
}

// checkNodes looks whose the nodes of the container are.
func (o *Options) checkNodes(d Devices) (warning string, err error) {
	if len(o.Nodes) == 0 {
		return "", nil
	}
	return d.CheckNodes(o.Nodes)
}

// podOf returns the UID of the pod that a process is in by its cgroup, empty where that is
// not one of a pod.
func podOf(f Files, pid int) string {
	text, err := f.Read("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return ""
	}
	return podcgroup.OfProcess(text)
}

// checkNamespace looks for what has to be in the container's network namespace.
func (o *Options) checkNamespace(d Devices, pid int, deadline time.Time) error {
	var errs []error
	if len(o.Present) > 0 {
		errs = append(errs, CheckPresences(d, pid, o.Present, deadline))
	}
	if len(o.Inside) > 0 {
		errs = append(errs, CheckInterfaces(d, pid, o.Inside, deadline))
	}
	return errors.Join(errs...)
}

// apply does what the options ask for and notes what has become of it.
func (r *Report) apply(opts Options, deadline time.Time, std IO) (err error) {
	result := Result{Outcome: Skipped, Message: "nothing to do: no --memlock is given"}
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

// talk says what has become of everything.
func (r *Report) talk(opts Options, stderr io.Writer) {
	quiet := func(o Outcome) bool { return opts.OnDenied == Ignore && (o == Denied || o == Unenforced) }
	if !quiet(r.Outcome) && (opts.Memlock != 0 || len(r.Limits) == 0) {
		say(stderr, r.Message)
	}
	for _, l := range r.Limits {
		if !quiet(l.Outcome) {
			say(stderr, l.Message)
		}
	}
}

func raise(open func(int) (Process, error), pid int, opts Options) (Result, error) {
	p, err := open(pid)
	if err != nil {
		err = wrap("raise locked-memory limit", err)
		return Result{Outcome: Failed, Message: err.Error()}, err
	}
	return Raise(p, opts.Memlock, opts.OnDenied)
}

func exitCode(err error, policy OnDenied) int {
	switch {
	case err == nil || policy != Fail:
		return ExitOK
	case errors.Is(err, ErrDenied):
		return ExitDenied
	}
	return ExitProcess
}

func newReport(opts Options, st State, warnings []string, version string) Report {
	r := Report{
		ReportVersion: ReportVersion,
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

// setLimitsBy sets the limits, but waits no longer than the deadline: the kernel
// changes one cgroup at a time, and another one may take long.
func setLimitsBy(deadline time.Time, f Files, pid int, opts Options) ([]LimitResult, error) {
	type outcome struct {
		results []LimitResult
		err     error
	}
	done := make(chan outcome, 1)
	go func() {
		results, err := SetLimits(f, pid, opts.Limits, opts.OnDenied)
		done <- outcome{results, err}
	}()
	select {
	case o := <-done:
		return o.results, o.err
	case <-time.After(time.Until(deadline)):
		return unsetAll(opts.Limits, opts.OnDenied, os.ErrDeadlineExceeded)
	}
}

// reportBy writes the report, but waits no longer than the deadline: the
// directory may be on a file system that hangs.
func reportBy(deadline time.Time, dir string, r Report) error {
	done := make(chan error, 1)
	go func() { done <- WriteReport(dir, r) }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Until(deadline)):
		return wrap("write report to "+strconv.Quote(dir), os.ErrDeadlineExceeded)
	}
}

// say writes lines for people. A runtime shows them only where the hook fails,
// if at all, so nothing depends on them.
func say(w io.Writer, lines ...string) {
	for _, line := range lines {
		io.WriteString(w, "rdma-hook: "+line+"\n")
	}
}
