// Package args is the command line of the hook: one value, which programs that write CDI specs turn into arguments, and
// which the hook reads back. Nobody else knows how a flag is called or formatted.
//
// An unknown flag is only a warning for the hook, because a CDI spec may outlive the version of the driver that wrote
// it. So a flag whose name differed between writer and reader would drop a limit without a word. Parse(o.Args())
// returns o for every o that Check accepts; a property test holds that.
//
// The package links only the standard library and bytesize: the hook is part of every container start.
package args

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DefaultTimeout bounds a run of the hook unless --timeout says otherwise.
const DefaultTimeout = 2 * time.Second

// Usage is the text of --help, without the exit codes.
const Usage = `rdma-hook raises RLIMIT_MEMLOCK of a container's init process, and limits how
much of RDMA devices the container may use.

It is an OCI createRuntime hook: a container runtime starts it and writes the
OCI state of the container to its standard input.

  --memlock unlimited|SIZE      the soft limit to raise to; SIZE is in bytes, or
                                has a suffix: 4Gi, 4g, 4gb and 4GB are equal; 4G
                                is 4000000000, as in Kubernetes. It is no bound:
                                a process may raise its own limit to the hard
                                limit, which the hook never lowers
  --limit IBDEV:handles=N,objects=M
                                limits of the container for an RDMA device, in
                                its cgroup (rdma.max): open contexts, and verbs
                                objects such as queue pairs; repeatable
  --present IBDEV:UVERBS        fail the start of the container unless the RDMA
                                device is in its network namespace, with this
                                verbs node; repeatable
  --node IBDEV:NODE@PCI         fail the start of a container with this node
                                unless the node belongs to the RDMA device, on
                                this PCI function (with /SF on this subfunction
                                of it); repeatable
  --interface NAME:ALIAS        fail the start of the container unless the
                                network interface is in its network namespace,
                                with this alias (ip link set NAME alias ALIAS);
                                repeatable
  --hca IBDEV:NODE:DRIVER       check that the container can use the RDMA device
                                of this node and kernel driver, if it has the
                                node; repeatable
  --on-unusable warn|fail|ignore
                                what to do if it cannot: warn reports it
                                (default), fail fails the start of the container
                                for a fault that is certain, ignore does not
                                check
  --on-denied clamp|fail|ignore
                                what to do without CAP_SYS_RESOURCE: clamp
                                raises the soft limit to the hard limit
                                (default), fail fails the start of the
                                container, ignore changes nothing. It also
                                applies to a --limit that cannot be set: clamp
                                then prints a warning
  --report DIR                  write the result to DIR/<container ID>.json, or
                                with limits DIR/<container ID>.<first
                                IBDEV>.json
  --last-report FILE            write the result to FILE, in place of that of an
                                earlier container; the hook makes the directory
                                of FILE
  --claim UID                   the claim of the container's devices, for the
                                report, which is then named <container
                                ID>.UID...
  --timeout DURATION            give up after this time (default 2s)
  --version                     print the version

Unknown flags and arguments are warnings, so that old CDI specs keep working.

`

// Options is the command line. The zero value of a field means that its flag is absent.
type Options struct {
	Memlock    Size
	Limits     []Limit
	Presences  []Presence
	Interfaces []Interface
	Nodes      []NodeOwner
	HCAs       []HCA
	OnUnusable OnUnusable
	OnDenied   OnDenied
	Report     string // directory
	LastReport string // file
	Claim      string
	Timeout    time.Duration
	Version    bool
	Help       bool
}

// Args returns the arguments after the program's name.
func (o Options) Args() []string {
	var args []string
	add := func(flag, value string) {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	if o.Memlock != 0 {
		text, _ := o.Memlock.MarshalText() // it has no error
		add("--memlock", string(text))
	}
	add("--on-denied", string(o.OnDenied))
	add("--on-unusable", string(o.OnUnusable))
	add("--report", o.Report)
	add("--claim", o.Claim)
	add("--last-report", o.LastReport)
	if o.Timeout != 0 {
		add("--timeout", o.Timeout.String())
	}
	for _, l := range o.Limits {
		add("--limit", l.flag())
	}
	for _, p := range o.Presences {
		add("--present", p.flag())
	}
	for _, n := range o.Nodes {
		add("--node", n.flag())
	}
	for _, i := range o.Interfaces {
		add("--interface", i.flag())
	}
	for _, h := range o.HCAs {
		add("--hca", h.flag())
	}
	if o.Version {
		args = append(args, "--version")
	}
	if o.Help {
		args = append(args, "--help")
	}
	return args
}

// Check returns an error if the hook would read other options from Args than these, such as a limit of 0, or a device
// with a blank in its name.
func (o Options) Check() error {
	want := o
	if want.OnDenied == "" {
		want.OnDenied = Clamp
	}
	if want.OnUnusable == "" {
		want.OnUnusable = Warn
	}
	if want.Timeout == 0 {
		want.Timeout = DefaultTimeout
	}
	want.Limits = nil
	for _, l := range o.Limits {
		l.Want.Handles, l.Want.Objects = min(l.Want.Handles, NoLimit), min(l.Want.Objects, NoLimit)
		want.Limits = append(want.Limits, l)
	}
	args := o.Args()
	got, warnings, err := Parse(args)
	switch {
	case err != nil:
		return fmt.Errorf("the hook refuses its arguments: %w", err)
	case len(warnings) > 0 || !reflect.DeepEqual(got, want):
		return errors.New("the hook would read its arguments otherwise: " + strconv.Quote(strings.Join(args, " ")))
	}
	return nil
}

// Parse parses the arguments after the program's name. An unknown flag is a warning, because another version of
// the driver may have written the CDI spec. An invalid value is an error, because a guess would hide the mistake until
// an application runs out of locked memory.
func Parse(args []string) (o Options, warnings []string, err error) {
	o = Options{OnDenied: Clamp, OnUnusable: Warn, Timeout: DefaultTimeout}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		name, value, hasValue := strings.Cut(arg, "=")
		switch {
		case arg == "-h" || arg == "--help":
			o.Help = true
		case arg == "--version":
			o.Version = true
		case slices.Contains(valueFlags, name):
			if !hasValue && len(args) > 0 {
				value, args = args[0], args[1:]
			}
			if err := o.set(name, value); err != nil {
				return o, warnings, fmt.Errorf("flag %s: %w", name, err)
			}
		case strings.HasPrefix(arg, "-"):
			warnings = append(warnings, "ignoring unknown flag "+strconv.Quote(arg))
		default:
			warnings = append(warnings, "ignoring extra argument "+strconv.Quote(arg))
		}
	}
	return o, warnings, nil
}

// valueFlags are the flags that take a value.
var valueFlags = []string{
	"--memlock", "--limit", "--present", "--node", "--interface", "--on-denied", "--report", "--last-report",
	"--claim", "--timeout", "--hca", "--on-unusable",
}

func (o *Options) set(name, value string) (err error) {
	switch name {
	case "--memlock":
		o.Memlock, err = ParseSize(value)
	case "--limit":
		err = appendParsed(&o.Limits, ParseLimit, value)
	case "--present":
		err = appendParsed(&o.Presences, ParsePresence, value)
	case "--node":
		err = appendParsed(&o.Nodes, ParseNodeOwner, value)
	case "--interface":
		err = appendParsed(&o.Interfaces, ParseInterface, value)
	case "--hca":
		err = appendParsed(&o.HCAs, ParseHCA, value)
	case "--on-unusable":
		o.OnUnusable, err = ParseOnUnusable(value)
	case "--on-denied":
		o.OnDenied, err = ParseOnDenied(value)
	case "--report":
		o.Report = value
		if !strings.HasPrefix(value, "/") {
			err = fmt.Errorf("%q is not an absolute path of a directory", value)
		}
	case "--last-report":
		o.LastReport = value
		if !strings.HasPrefix(value, "/") {
			err = fmt.Errorf("%q is not an absolute path of a file", value)
		}
	case "--claim":
		o.Claim = value
	case "--timeout":
		o.Timeout, err = time.ParseDuration(value)
		if err == nil && o.Timeout <= 0 {
			err = fmt.Errorf("%q is not a positive duration, such as 2s", value)
		}
	}
	return err
}

func appendParsed[T any](list *[]T, parse func(string) (T, error), value string) error {
	v, err := parse(value)
	*list = append(*list, v)
	return err
}
