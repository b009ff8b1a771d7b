package cdi

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"
)

// hookTimeout, in seconds, ends a hook that hangs. The hook itself stops after two.
const hookTimeout = 10

// sharedHook returns the hook at the level of the spec, and whether all devices have the same hook. The spec needs
// none if every device has a hook of its own, because a second one would only cost its start.
func sharedHook(devices []Device) (hook *Hook, same bool) {
	same = !slices.ContainsFunc(devices, func(d Device) bool { return !reflect.DeepEqual(d.Hook, devices[0].Hook) })
	if !same || !slices.ContainsFunc(devices, func(d Device) bool { return !ownHook(d) }) {
		return nil, same
	}
	return devices[0].Hook, true
}

// ownHook reports whether a device needs a hook with arguments of its own.
func ownHook(d Device) bool { return len(d.Limits)+len(d.Presences)+len(d.Interfaces) > 0 }

// hooks describes a hook with the arguments that a device needs.
func hooks(h *Hook, d Device) []*specs.Hook {
	if h == nil {
		return nil
	}
	timeout := hookTimeout
	// Runtimes pass args as argv, so the first one is the program's name.
	args := append([]string{"rdma-hook"}, h.Args...)
	for _, l := range d.Limits {
		args = append(args, "--limit", l.flag())
	}
	for _, p := range d.Presences {
		args = append(args, "--present", p.IBDev+":"+p.Uverbs)
	}
	for _, o := range d.Owners {
		args = append(args, "--node", o.flag())
	}
	for _, i := range d.Interfaces {
		args = append(args, "--interface", i.Name+":"+i.Alias)
	}
	return []*specs.Hook{{
		HookName: "createRuntime",
		Path:     h.Path,
		Args:     args,
		// The hook is part of every container start. It starts faster with one processor.
		Env:     []string{"GOMAXPROCS=1"},
		Timeout: &timeout,
	}}
}

// flag formats the limit for the hook's --limit: mlx5_0:handles=64,objects=16384.
func (l Limit) flag() string {
	var parts []string
	if l.Handles > 0 {
		parts = append(parts, "handles="+strconv.FormatInt(l.Handles, 10))
	}
	if l.Objects > 0 {
		parts = append(parts, "objects="+strconv.FormatInt(l.Objects, 10))
	}
	return l.IBDev + ":" + strings.Join(parts, ",")
}

// sharedOwners returns the owners at the level of the spec: the nodes of all devices without a hook of their own. A
// container with some of these devices starts only if the nodes of all of them are right. They differ only while
// the kernel's devices change.
func sharedOwners(devices []Device) []NodeOwner {
	var owners []NodeOwner
	for _, d := range devices {
		if ownHook(d) {
			continue
		}
		for _, o := range d.Owners {
			if !slices.Contains(owners, o) {
				owners = append(owners, o)
			}
		}
	}
	return owners
}

// flag formats the owner for the hook's --node: mlx5_0:uverbs0@0000:3b:00.0.
func (o NodeOwner) flag() string {
	flag := o.IBDev + ":" + o.Node
	if o.Slot != "" {
		flag += "@" + o.Slot
	}
	return flag
}

// checkLimits rejects limits that the hook would not understand, and limits without a hook. A
// container must not start without its limits.
func checkLimits(d Device) error {
	if ownHook(d) && d.Hook == nil {
		return errors.New("limits need a hook that sets them, and HCAs and interfaces one that checks for them: it has none")
	}
	for _, l := range d.Limits {
		switch {
		case l.IBDev == "" || strings.ContainsAny(l.IBDev, " \t\n"):
			return fmt.Errorf("limit the RDMA device %q: the kernel makes no such name", l.IBDev)
		case l.Handles < 0 || l.Objects < 0:
			return fmt.Errorf("limit RDMA device %q: handles %d and objects %d must not be negative",
				l.IBDev, l.Handles, l.Objects)
		case l.Handles == 0 && l.Objects == 0:
			return fmt.Errorf("limit RDMA device %q: neither handles nor objects are given", l.IBDev)
		}
	}
	return nil
}
