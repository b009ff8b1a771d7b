package hook

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// LimitResult is what has become of one --limit.
type LimitResult struct {
	Device  string     `json:"device"`
	Want    Wanted     `json:"want"`
	Outcome Outcome    `json:"outcome"`
	Message string     `json:"message"`          // the outcome in words, with numbers
	Before  *Resources `json:"before,omitempty"` // nil where it could not be read
	After   *Resources `json:"after,omitempty"`  // nil where Before is
}

// SetLimits limits what a container may use of RDMA devices, in the cgroup of its
// process. The first limit of a device in a container replaces "max"; a later one,
// such as that of another claim, raises it where it asks for more, and never lowers it.
// So it may run any number of times. Where the kernel cannot limit, the container runs
// without. The error is not nil only where a limit is not set; the results are
// meaningful in any case, one for each limit.
func SetLimits(f Files, pid int, limits []DeviceLimit, policy OnDenied) ([]LimitResult, error) {
	file, err := openMax(f, pid)
	if err != nil {
		return unsetAll(limits, policy, err)
	}
	var results []LimitResult
	var errs []error
	for _, l := range limits {
		r, err := l.set(f, file)
		if err != nil {
			r, err = l.unset(r.Before, policy, err)
		}
		results, errs = append(results, r), append(errs, err)
	}
	return results, errors.Join(errs...)
}

// unsetAll is for what keeps all limits from being set.
func unsetAll(limits []DeviceLimit, policy OnDenied, err error) ([]LimitResult, error) {
	var results []LimitResult
	var errs []error
	for _, l := range limits {
		r, err := l.unset(nil, policy, err)
		results, errs = append(results, r), append(errs, err)
	}
	return results, errors.Join(errs...)
}

// openMax finds the rdma.max of a process's cgroup, enabling the controller where that
// is all it needs.
func openMax(f Files, pid int) (path string, err error) {
	c, err := findCgroup(f, pid)
	if err != nil {
		return "", err
	}
	path = c.dir() + "/rdma.max"
	_, err = f.Read(path)
	if err == unix.ENOENT {
		return path, c.enable(f)
	}
	return path, wrap("read "+path, err)
}

// set writes the limit, and looks whether the kernel took it.
func (l DeviceLimit) set(f Files, file string) (r LimitResult, err error) {
	r = LimitResult{Device: l.Device, Want: l.Want, Outcome: Already}
	before, err := l.read(f, file)
	if err != nil {
		return r, err
	}
	r.Before, r.After = &before, &before
	target := Resources{raised(before.Handles, l.Want.Handles), raised(before.Objects, l.Want.Objects)}
	if target == before {
		r.Message = "limit of " + l.Device + " is already " + before.String() + ", asked for " + l.Want.String()
		return r, nil
	}
	line := l.Device + " hca_handle=" + target.Handles.String() + " hca_object=" + target.Objects.String()
	if err := f.Write(file, line); err != nil {
		return r, wrap("write "+strconv.Quote(line)+" to "+file, err)
	}
	after, err := l.read(f, file)
	if err == nil && after != target {
		err = errors.New("after " + strconv.Quote(line) + " was written to " + file + " it has " + after.String())
	}
	r.Outcome, r.After = Limited, &after
	r.Message = "limit of " + l.Device + " set from " + before.String() + " to " + after.String()
	return r, err
}

// read returns what rdma.max says of the device.
func (l DeviceLimit) read(f Files, file string) (Resources, error) {
	text, err := f.Read(file)
	if err != nil {
		return Resources{}, wrap("read "+file, err)
	}
	r, found, err := parseMax(text, l.Device)
	if err == nil && !found {
		err = &unenforceable{"the rdma controller does not know the device"}
	}
	return r, wrap("read "+file, err)
}

// raised is the limit after one that asks for want; 0 asks for nothing.
func raised(now, want Count) Count {
	switch {
	case want == 0:
		return now
	case now == NoLimit:
		return want
	}
	return max(now, want)
}

// unset ends an attempt that set nothing.
func (l DeviceLimit) unset(before *Resources, policy OnDenied, err error) (LimitResult, error) {
	r := LimitResult{Device: l.Device, Want: l.Want, Outcome: Failed, Before: before, After: before}
	what := "limit " + l.Device + " to " + l.Want.String()
	var reason *unenforceable
	switch {
	case errors.As(err, &reason):
		r.Outcome, r.Message = Unenforced, what+": not possible here, so it is accounting only: "+reason.reason
	case denied(err):
		r.Outcome, r.Message = Denied, wrap(what, err).Error()
	default:
		err = wrap(what, err)
		r.Message = err.Error()
		return r, err
	}
	if policy == Fail {
		return r, wrap(r.Message, ErrDenied)
	}
	return r, nil
}

// denied reports whether permission is missing.
func denied(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS)
}
