package hook

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// DefaultTimeout bounds a run of the hook unless --timeout says otherwise.
const DefaultTimeout = 2 * time.Second

// Usage is the text of --help.
func Usage() string { return usage + ExitCodes.Help() }

const usage = `rdma-hook raises RLIMIT_MEMLOCK of a container's init process, and limits what the
container may use of RDMA devices.

It is an OCI createRuntime hook: a container runtime starts it and writes the
OCI state of the container to its standard input.

  --memlock unlimited|SIZE      the soft limit to raise to; SIZE is in bytes, or with a
                                suffix Ki Mi Gi Ti, or k K M G T (powers of 1000).
                                It is no bound: a process may raise its own limit
                                to the hard one, which is never lowered
  --limit IBDEV:handles=N,objects=M
                                what the container may use of an RDMA device, in its
                                cgroup (rdma.max): open contexts, and verbs objects
                                such as queue pairs; repeatable
  --present IBDEV:UVERBS        stop the start of the container unless the RDMA device
                                is in its network namespace, with this verbs node;
                                repeatable
  --interface NAME:ALIAS        stop the start of the container unless the network
                                interface is in its network namespace, with this
                                alias (ip link set NAME alias ALIAS); repeatable
  --on-denied clamp|fail|ignore what to do without CAP_SYS_RESOURCE: raise the soft
                                limit to the hard one (default), stop the start of
                                the container, or leave it as it is. Also where a
                                --limit cannot be set: say so, stop, or leave it
  --report DIR                  write the result to DIR/<container ID>.json, or with
                                limits DIR/<container ID>.<first IBDEV>.json
  --claim UID                   the claim that the container has the devices of, for
                                the report; it is then named <container ID>.UID...
  --timeout DURATION            give up after this time (default 2s)
  --version                     print the version

Unknown flags and arguments are warnings, so that old CDI specs keep working.

`

// Options is the command line.
type Options struct {
	Memlock  Size // 0 where absent
	Limits   []DeviceLimit
	Present  []Presence
	Inside   []Interface
	OnDenied OnDenied
	Report   string // "" where absent
	Claim    string // "" where absent
	Timeout  time.Duration
	Version  bool
	Help     bool
}

// ParseOptions reads the arguments after the program's name. What it does not
// know is a warning: a CDI spec may have been written by another version of
// the driver than the hook. A value it does not understand is an error, since to
// guess would hide the mistake until an application runs out of locked memory.
func ParseOptions(args []string) (o Options, warnings []string, err error) {
	o = Options{OnDenied: Clamp, Timeout: DefaultTimeout}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		name, value, hasValue := strings.Cut(arg, "=")
		switch {
		case arg == "-h" || arg == "--help":
			o.Help = true
		case arg == "--version":
			o.Version = true
		case takesValue(name):
			if !hasValue && len(args) > 0 {
				value, args = args[0], args[1:]
			}
			if err := o.set(name, value); err != nil {
				return o, warnings, wrap("flag "+name, err)
			}
		case strings.HasPrefix(arg, "-"):
			warnings = append(warnings, "ignoring unknown flag "+strconv.Quote(arg))
		default:
			warnings = append(warnings, "ignoring extra argument "+strconv.Quote(arg))
		}
	}
	return o, warnings, nil
}

func takesValue(name string) bool {
	switch name {
	case "--memlock", "--limit", "--present", "--interface", "--on-denied", "--report", "--claim", "--timeout":
		return true
	}
	return false
}

func (o *Options) set(name, value string) (err error) {
	switch name {
	case "--memlock":
		o.Memlock, err = ParseSize(value)
	case "--limit":
		var l DeviceLimit
		l, err = ParseLimit(value)
		o.Limits = append(o.Limits, l)
	case "--present":
		var p Presence
		p, err = ParsePresence(value)
		o.Present = append(o.Present, p)
	case "--interface":
		var i Interface
		i, err = ParseInterface(value)
		o.Inside = append(o.Inside, i)
	case "--on-denied":
		o.OnDenied = OnDenied(value)
		if o.OnDenied != Clamp && o.OnDenied != Fail && o.OnDenied != Ignore {
			err = errors.New(strconv.Quote(value) + " is none of clamp, fail, ignore")
		}
	case "--report":
		o.Report = value
		if !strings.HasPrefix(value, "/") {
			err = errors.New(strconv.Quote(value) + " is not an absolute path of a directory")
		}
	case "--claim":
		o.Claim = value
	case "--timeout":
		o.Timeout, err = time.ParseDuration(value)
		if err == nil && o.Timeout <= 0 {
			err = errors.New(strconv.Quote(value) + " is not a positive duration, such as 2s")
		}
	}
	return err
}
