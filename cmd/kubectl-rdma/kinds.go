package main

import (
	"cmp"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// kind is what commands list.
type kind[T any] struct {
	name string
	// id is the line of -o name: kubectl takes it as TYPE/NAME. A device is no object of the API server, and has the form
	// that messages of all programs use.
	id func(T) string
	// keys are those of --sort-by, which usage explains. Equal items keep their order.
	keys  map[string]func(a, b T) int
	usage string
}

var (
	podList  = kind[lists.Pod]{name: "Pod", id: func(p lists.Pod) string { return "pod/" + p.Name }}
	nodeList = kind[lists.Node]{
		name: "Node", id: func(n lists.Node) string { return "node/" + n.Name },
		keys: map[string]func(a, b lists.Node) int{
			"name":    by(func(n lists.Node) string { return n.Name }),
			"free":    by(func(n lists.Node) int { return -count(n.Free) }),
			"used":    by(func(n lists.Node) int { return -count(n.Used) }),
			"tainted": by(func(n lists.Node) int { return -count(n.Tainted) }),
		},
		usage: "sort by `KEY`: name, or free, used or tainted (most first)",
	}
	deviceList = kind[lists.Device]{
		name: "Device", id: func(d lists.Device) string { return "device/" + d.Node + "/" + d.Name },
		keys: map[string]func(a, b lists.Device) int{
			"name":  by(func(d lists.Device) string { return d.Name }),
			"state": by(func(d lists.Device) int { return slices.Index(model.DeviceStates, d.State) }),
			"rate":  by(func(d lists.Device) int64 { return -d.Number(rdma.AttributeRateGbps, 0) }),
			"rail":  by(func(d lists.Device) int64 { return d.Number(rdma.AttributeRail, 1<<32) }),
			"numa": by(func(d lists.Device) int64 {
				return d.Number(string(deviceattribute.StandardDeviceAttributeNUMANode), 1<<32)
			}),
		},
		usage: "sort by `KEY`: name, state (free first), rate (fastest first), rail or numa",
	}
	claimList = kind[lists.Claim]{
		name: "Claim", id: func(c lists.Claim) string { return "resourceclaim.resource.k8s.io/" + c.Name },
		keys: map[string]func(a, b lists.Claim) int{
			"name":  by(func(c lists.Claim) string { return c.Name }),
			"state": by(func(c lists.Claim) string { return string(c.State) }),
			"node":  by(func(c lists.Claim) string { return c.Node }),
			"age":   by(func(c lists.Claim) int64 { return c.Created.Unix() }),
		},
		usage: "sort by `KEY`: name, state, node or age (oldest first)",
	}
)

// count returns a count, -1 if it is not known.
func count(n *int) int {
	if n == nil {
		return -1
	}
	return *n
}

// by compares items by a value.
func by[T any, V cmp.Ordered](value func(T) V) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(value(a), value(b)) }
}

// sortFlag adds --sort-by to a command that lists items of a kind. The command refuses an unknown key before it sends a
// request.
func sortFlag[T any](o *output, cmd *cobra.Command, k kind[T]) {
	o.sortKeys = slices.Sorted(maps.Keys(k.keys))
	cmd.Flags().StringVar(&o.sortBy, "sort-by", "", k.usage)
	complete(cmd, "sort-by", cobra.FixedCompletions(o.sortKeys, cobra.ShellCompDirectiveNoFileComp))
}
