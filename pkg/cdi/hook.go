package cdi

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// hookTimeout, in seconds, ends a hook that hangs. The hook itself stops after two.
const hookTimeout = 10

// sharedHook returns the hook at the level of the spec, and whether all devices have the same hook apart from what it
// does for each of them. The spec needs none if every device has a hook of its own, because a second one would only
// cost its start.
func sharedHook(devices []Device) (shared *Hook, same bool) {
	shared = common(devices[0].Hook)
	same = !slices.ContainsFunc(devices, func(d Device) bool { return !reflect.DeepEqual(common(d.Hook), shared) })
	if !same || shared == nil || !slices.ContainsFunc(devices, func(d Device) bool { return !ownHook(d) }) {
		return nil, same
	}
	shared.Options.Nodes = sharedOf(devices, func(o *args.Options) []args.NodeOwner { return o.Nodes })
	shared.Options.HCAs = sharedOf(devices, func(o *args.Options) []args.HCA { return o.HCAs })
	return shared, true
}

// common returns a hook without what it does for one device.
func common(h *Hook) *Hook {
	if h == nil {
		return nil
	}
	o := h.Options
	o.Limits, o.Presences, o.Nodes, o.HCAs, o.Interfaces = nil, nil, nil, nil, nil
	return &Hook{Path: h.Path, Options: o}
}

// ownHook reports whether a device needs a hook with arguments of its own.
func ownHook(d Device) bool {
	return d.Hook != nil && len(d.Hook.Options.Limits)+len(d.Hook.Options.Presences)+len(d.Hook.Options.Interfaces) > 0
}

// hooks describes a hook.
func hooks(h *Hook) []*specs.Hook {
	if h == nil {
		return nil
	}
	timeout := hookTimeout
	return []*specs.Hook{{
		HookName: "createRuntime",
		Path:     h.Path,
		// Runtimes pass args as argv, so the first one is the program's name.
		Args: append([]string{"rdma-hook"}, h.Options.Args()...),
		// The hook is part of every container start. It starts faster with one processor.
		Env:     []string{"GOMAXPROCS=1"},
		Timeout: &timeout,
	}}
}

// sharedOf returns what the hook at the level of the spec does for the devices without a hook of their own. The hook
// checks those nodes and HCAs only that the container has.
func sharedOf[T comparable](devices []Device, list func(*args.Options) []T) (all []T) {
	seen := map[T]bool{}
	for _, d := range devices {
		if d.Hook == nil || ownHook(d) {
			continue
		}
		for _, v := range list(&d.Hook.Options) {
			if !seen[v] {
				seen[v], all = true, append(all, v)
			}
		}
	}
	return all
}

// owning returns a hook that refuses a container whose nodes are not those of the HCAs any more, nil for no hook.
func (h *Hook) owning(hcas []*rdma.HCA, nodes []rdma.Node) *Hook {
	if h == nil {
		return nil
	}
	own := *h
	own.Options.Nodes = slices.Clone(own.Options.Nodes)
	given := map[string]bool{}
	for _, n := range nodes {
		given[n.Name] = true
	}
	for _, hca := range hcas {
		var mine []rdma.Node
		for _, n := range hca.Nodes() {
			if given[n.Name] {
				mine = append(mine, *n)
			}
		}
		for _, owner := range NodeOwners(hca, mine) {
			// An argument that the hook would not understand keeps every container from starting.
			if (args.Options{Nodes: []args.NodeOwner{owner}}).Check() == nil {
				own.Options.Nodes = append(own.Options.Nodes, owner)
			}
		}
	}
	return &own
}

// CheckUse makes the hook check that the container can use an HCA. An HCA without verbs, or with a driver or a name
// that no argument can say, is not checked.
func (h *Hook) CheckUse(hca *rdma.HCA) {
	if hca.Uverbs == nil || h.Options.OnUnusable == args.IgnoreUnusable {
		return
	}
	use := args.HCA{IBDev: hca.IBDev, Node: hca.Uverbs.Name, Driver: hca.Driver}
	if (args.Options{HCAs: []args.HCA{use}}).Check() == nil {
		h.Options.HCAs = append(slices.Clip(h.Options.HCAs), use)
	}
}

// checkHook rejects arguments that the hook would not understand. A container must not start without its limits.
func checkHook(h *Hook) error {
	if h == nil {
		return nil
	}
	for _, l := range h.Options.Limits {
		switch handles, objects := l.Want.Handles, l.Want.Objects; {
		case l.IBDev == "" || strings.ContainsAny(l.IBDev, " \t\n"):
			return fmt.Errorf("limit the RDMA device %q: the kernel makes no such name", l.IBDev)
		case handles < 0 || objects < 0:
			return fmt.Errorf("limit RDMA device %q: handles %d and objects %d must not be negative",
				l.IBDev, handles, objects)
		case handles == 0 && objects == 0:
			return fmt.Errorf("limit RDMA device %q: neither handles nor objects are given", l.IBDev)
		}
	}
	return h.Options.Check()
}
