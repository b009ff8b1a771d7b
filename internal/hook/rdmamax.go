package hook

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
)

// SetLimits limits how much of RDMA devices a container may use, in the cgroup of its process. It is idempotent: the
// first limit of a device replaces "max", and later ones, such as those of other claims, raise it but never lower it.
// If the kernel cannot limit, the container runs without limits. The error is nil if all limits are set. There is
// always one result for each limit.
func SetLimits(f Files, pid int, limits []args.Limit, policy args.OnDenied) ([]record.DeviceLimit, error) {
	file, err := openMax(f, pid)
	return eachLimit(limits, policy, func(l args.Limit) (record.DeviceLimit, error) {
		if err != nil {
			return record.DeviceLimit{}, err
		}
		return setLimit(l, f, file)
	})
}

// eachLimit collects the results of set. It applies the policy to limits that are not set.
func eachLimit(limits []args.Limit, policy args.OnDenied, set func(args.Limit) (record.DeviceLimit, error)) (
	results []record.DeviceLimit, err error) {
	var errs []error
	for _, l := range limits {
		r, err := set(l)
		if err != nil {
			r, err = unset(l, r.Before, policy, err)
		}
		results, errs = append(results, r), append(errs, err)
	}
	return results, errors.Join(errs...)
}

// openMax finds the rdma.max of a process's cgroup. If the controller is not enabled, it enables the controller.
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

// setLimit writes the limit, and checks that the kernel has accepted it.
func setLimit(l args.Limit, f Files, file string) (r record.DeviceLimit, err error) {
	r = record.DeviceLimit{Device: l.IBDev, Want: l.Want, Outcome: record.Already}
	before, err := readLimit(l, f, file)
	if err != nil {
		return r, err
	}
	r.Before, r.After = &before, &before
	target := record.Resources{
		Handles: raised(before.Handles, l.Want.Handles), Objects: raised(before.Objects, l.Want.Objects),
	}
	if target == before {
		r.Message = fmt.Sprintf("limit of %s is already %v, requested %v", l.IBDev, before, l.Want)
		return r, nil
	}
	line := fmt.Sprintf("%s hca_handle=%v hca_object=%v", l.IBDev, target.Handles, target.Objects)
	if err := f.Write(file, line); err != nil {
		return r, fmt.Errorf("write %q to %s: %w", line, file, err)
	}
	after, err := readLimit(l, f, file)
	if err == nil && after != target {
		err = fmt.Errorf("write %q to %s: the limit is %v afterwards", line, file, after)
	}
	r.Outcome, r.After = record.Limited, &after
	r.Message = fmt.Sprintf("limit of %s set from %v to %v", l.IBDev, before, after)
	return r, err
}

// readLimit returns the limit of the device in rdma.max.
func readLimit(l args.Limit, f Files, file string) (record.Resources, error) {
	text, err := f.Read(file)
	if err != nil {
		return record.Resources{}, wrap("read "+file, err)
	}
	r, found, err := parseMax(text, l.IBDev)
	if err == nil && !found {
		err = &unenforceable{"the rdma controller does not know the device"}
	}
	return r, wrap("read "+file, err)
}

// raised returns the new limit if want is requested. A want of 0 requests nothing.
func raised(now, want args.Count) args.Count {
	switch {
	case want == 0:
		return now
	case now == args.NoLimit:
		return want
	}
	return max(now, want)
}

// unset returns the result for a limit that is not set.
func unset(l args.Limit, before *record.Resources, policy args.OnDenied, err error) (record.DeviceLimit, error) {
	r := record.DeviceLimit{Device: l.IBDev, Want: l.Want, Outcome: record.Failed, Before: before, After: before}
	what := "limit " + l.IBDev + " to " + l.Want.String()
	var reason *unenforceable
	switch {
	case errors.As(err, &reason):
		r.Outcome, r.Message = record.Unenforced, what+": not possible here, so it is accounting only: "+reason.reason
	case denied(err):
		r.Outcome, r.Message = record.Denied, wrap(what, err).Error()
	default:
		err = wrap(what, err)
		r.Message = err.Error()
		return r, err
	}
	if policy == args.Fail {
		return r, wrap(r.Message, ErrDenied)
	}
	return r, nil
}

// denied reports whether an error says that permission is missing.
func denied(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS)
}

// parseMax finds the line of a device in rdma.max, such as "mlx5_0 hca_handle=2 hca_object=max ". found is false if the
// controller does not know the device.
func parseMax(text, device string) (r record.Resources, found bool, err error) {
	for line := range strings.SplitSeq(text, "\n") {
		name, rest, _ := strings.Cut(line, " ")
		if name != device {
			continue
		}
		handles, err1 := parseMaxField(rest, "hca_handle=")
		objects, err2 := parseMaxField(rest, "hca_object=")
		if err1 != nil || err2 != nil {
			return record.Resources{}, true, fmt.Errorf("parse %q: want hca_handle and hca_object, each max or a number", line)
		}
		return record.Resources{Handles: handles, Objects: objects}, true, nil
	}
	return record.Resources{}, false, nil
}

func parseMaxField(line, name string) (args.Count, error) {
	for word := range strings.SplitSeq(line, " ") {
		if value, ok := strings.CutPrefix(word, name); ok {
			var c args.Count
			err := c.UnmarshalText([]byte(value))
			return c, err
		}
	}
	return 0, strconv.ErrSyntax
}
