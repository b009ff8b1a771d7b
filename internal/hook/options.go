package hook

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DefaultTimeout bounds a run of the hook unless --timeout says otherwise.
const DefaultTimeout = 2 * time.Second

// Usage is the text of --help.
func Usage() string { return usage + ExitCodes.Help() }

const usage = `rdma-hook raises RLIMIT_MEMLOCK of a container's init process, and limits how much of
RDMA devices the container may use.

It is an OCI createRuntime hook: a container runtime starts it and writes the
OCI state of the container to its standard input.

  --memlock unlimited|SIZE      the soft limit to raise to; SIZE is in bytes, or with a
                                suffix Ki Mi Gi Ti, or k K M G T (powers of 1000).
                                It is no bound: a process may raise its own limit
                                to the hard limit, which the hook never lowers
  --limit IBDEV:handles=N,objects=M
                                limits of the container for an RDMA device, in its
                                cgroup (rdma.max): open contexts, and verbs objects
                                such as queue pairs; repeatable
  --present IBDEV:UVERBS        fail the start of the container unless the RDMA device
                                is in its network namespace, with this verbs node;
                                repeatable
  --node IBDEV:NODE@PCI         fail the start of the container unless its node belongs
                                to the RDMA device, on this PCI function (with /SF on
                                this subfunction of it); repeatable
  --interface NAME:ALIAS        fail the start of the container unless the network
                                interface is in its network namespace, with this
                                alias (ip link set NAME alias ALIAS); repeatable
  --on-denied clamp|fail|ignore what to do without CAP_SYS_RESOURCE: clamp raises the
                                soft limit to the hard limit (default), fail fails the
                                start of the container, ignore changes nothing. It also
                                applies to a --limit that cannot be set: clamp then
                                prints a warning
  --report DIR                  write the result to DIR/<container ID>.json, or with
                                limits DIR/<container ID>.<first IBDEV>.json
  --last-report FILE            write the result to FILE, in place of that of an earlier
                                container; the hook makes the directory of FILE
  --claim UID                   the claim of the container's devices, for the report,
                                which is then named <container ID>.UID...
  --timeout DURATION            give up after this time (default 2s)
  --version                     print the version

Unknown flags and arguments are warnings, so that old CDI specs keep working.

`

// Options is the command line. The zero value of a field means that its flag is absent.
type Options struct {
	Memlock  Size
	Limits   []DeviceLimit
	Present  []Presence
	Inside   []Interface
	Nodes    []NodeOwner
	OnDenied OnDenied
	Report   string
	Last     string
	Claim    string
	Timeout  time.Duration
	Version  bool
	Help     bool
}

// ParseOptions parses the arguments after the program's name. An unknown flag is a warning, because another version of
// the driver may have written the CDI spec. An invalid value is an error, because a guess would hide the mistake until
// an application runs out of locked memory.
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
		case slices.Contains(valueFlags, name):
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

// valueFlags are the flags that take a value.
var valueFlags = []string{
	"--memlock", "--limit", "--present", "--node", "--interface", "--on-denied", "--report", "--last-report",
	"--claim", "--timeout",
}

func (o *Options) set(name, value string) (err error) {
	switch name {
	case "--memlock":
		o.Memlock, err = ParseSize(value)
	case "--limit":
		err = appendParsed(&o.Limits, ParseLimit, value)
	case "--present":
		err = appendParsed(&o.Present, ParsePresence, value)
	case "--node":
		err = appendParsed(&o.Nodes, ParseNodeOwner, value)
	case "--interface":
		err = appendParsed(&o.Inside, ParseInterface, value)
	case "--on-denied":
		o.OnDenied = OnDenied(value)
		if o.OnDenied != Clamp && o.OnDenied != Fail && o.OnDenied != Ignore {
			err = fmt.Errorf("%q is none of clamp, fail, ignore", value)
		}
	case "--report":
		o.Report = value
		if !strings.HasPrefix(value, "/") {
			err = fmt.Errorf("%q is not an absolute path of a directory", value)
		}
	case "--last-report":
		o.Last = value
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
