package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

func newNodes(p *plugin) *cobra.Command {
	var o *output
	var nodes metav1.ListOptions
	cmd := &cobra.Command{
		Use:     "nodes [NODE...]",
		Aliases: []string{"node", "no"},
		Short:   "Show the nodes with RDMA devices, and the state of their driver",
		Long: `Show the nodes that run the driver or publish RDMA devices. A device is FREE if one
more claim could have it now, USED if a claim has it or a share of it, and TAINTED if
a taint keeps new claims away, with the DeviceTaintRules that set one. DRIVER is Ready,
NotReady (it has not published yet, or cannot), Missing, NoHCA (it has found none),
NothingPublished (it runs, and has no ResourceSlices), Publishing (some ResourceSlices are
missing) or Unknown. -o wide says why a driver publishes nothing.`,
		Example: `  kubectl rdma nodes
  kubectl rdma nodes -l pool=gpu -o wide
  kubectl rdma nodes --sort-by free`,
		ValidArgsFunction: p.completer(nodeNames),
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := p.read(cmd.Context(), collect.Reader{Nodes: nodes}, collect.Nodes, collect.Slices, collect.Claims,
				collect.Pods, collect.Rules, collect.Classes, collect.EmptyNodes)
			if err != nil {
				return err
			}
			if err := known(corev1.Resource("nodes"), names, c.Nodes, func(n corev1.Node) string { return n.Name }); err != nil {
				return err
			}
			if len(c.Nodes) == 0 && nodes.LabelSelector != "" { // lists.Nodes would take those of the slices
				return printList(o, nodeList, nil, noResources, lists.NodeTable)
			}
			list, err := lists.Nodes(cmd.Context(), c, names...)
			if err != nil {
				return err
			}
			return printList(o, nodeList, list, nothingIn(c, noNodes), lists.NodeTable)
		},
	}
	o = newOutput(p.IOStreams, cmd, "table", "wide", "name")
	sortFlag(o, cmd, nodeList)
	cmd.Flags().StringVarP(&nodes.LabelSelector, "selector", "l", "", "label `SELECTOR` of the nodes")
	return cmd
}

// known returns kubectl's error for the first name that is missing in a list.
func known[T any](resource schema.GroupResource, names []string, items []T, name func(T) string) error {
	for _, n := range names {
		if !slices.ContainsFunc(items, func(item T) bool { return name(item) == n }) {
			return apierrors.NewNotFound(resource, n)
		}
	}
	return nil
}

// nodeChoice is the flag that chooses nodes. Arguments name nodes else.
type nodeChoice struct{ selector string }

func (n *nodeChoice) register(p *plugin, cmd *cobra.Command) {
	cmd.ValidArgsFunction = p.completer(nodeNames)
	cmd.Flags().StringVarP(&n.selector, "selector", "l", "", "only nodes with this label `SELECTOR`")
}

// read reads the slices and other kinds of objects, and also the nodes if a label selector chooses them. It returns
// the choice.
func (n *nodeChoice) read(ctx context.Context, p *plugin, names []string, others ...collect.Kind) (*model.Cluster,
	model.NodeChoice, error) {
	if len(names) > 0 && n.selector != "" {
		return nil, model.NodeChoice{}, cli.Usagef("name nodes, or choose them by --selector: both are given")
	}
	if n.selector == "" {
		c, err := p.read(ctx, collect.Reader{}, collect.Slices, others...)
		if err == nil {
			err = p.checkNodes(ctx, names, c.Slices)
		}
		return c, model.NodeChoice{Names: names}, err
	}
	chosen := model.NodeChoice{FromSelector: true}
	c, err := p.read(ctx, collect.Reader{Nodes: metav1.ListOptions{LabelSelector: n.selector}}, collect.Nodes,
		append([]collect.Kind{collect.Slices}, others...)...)
	if err != nil {
		return nil, chosen, err
	}
	for _, node := range c.Nodes {
		chosen.Names = append(chosen.Names, node.Name)
	}
	return c, chosen, nil
}

// checkNodes returns kubectl's error for the first name of no node. It asks only for nodes without slices. If the user
// may not list nodes, they may exist.
func (p *plugin) checkNodes(ctx context.Context, names []string, published []resourceapi.ResourceSlice) error {
	for _, name := range names {
		if slices.ContainsFunc(published, func(s resourceapi.ResourceSlice) bool {
			return s.Spec.NodeName != nil && *s.Spec.NodeName == name
		}) {
			continue
		}
		client, err := p.client()
		if err != nil {
			return err
		}
		only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
		c, err := collect.Reader{Client: client, Nodes: only}.Read(ctx, collect.Nodes)
		switch {
		case err != nil && collect.Unreadable(err):
		case err != nil:
			return err
		case len(c.Nodes) == 0:
			return apierrors.NewNotFound(corev1.Resource("nodes"), name)
		}
	}
	return nil
}

func newDevices(p *plugin) *cobra.Command {
	var o *output
	var nodes nodeChoice
	var filter lists.DeviceFilter
	cmd := &cobra.Command{
		Use:     "devices [NODE...]",
		Aliases: []string{"dev"},
		Short:   "Show the RDMA devices that are published, and who has them",
		Long: `Show the RDMA devices in the ResourceSlices of the driver, in the order in which the
scheduler gives them out. STATE says what a new claim would meet:

  Free       nobody has the device
  Allocated  a claim has it for itself
  Shared     claims have shares of it, and there is room for one more
  Full       claims have all of its shares
  Excluded   a claim has another device of the same HCA or card, which excludes this one

Taints are apart from that: a free device with a taint is given to no claim that does
not tolerate it.`,
		Example: `  kubectl rdma devices worker-3 -o wide
  kubectl rdma devices --class hca.rdma.dev --sort-by state
  kubectl rdma devices --cel 'device.attributes["rdma.dev"].?rateGbps.orValue(0) >= 400'
  kubectl rdma devices -o jsonpath='{.items[?(@.state=="Free")].name}'`,
		RunE: func(cmd *cobra.Command, names []string) error {
			others := []collect.Kind{collect.Claims, collect.Rules}
			if filter.Class != "" {
				others = append(others, collect.Classes)
			}
			c, chosen, err := nodes.read(cmd.Context(), p, names, others...)
			if err != nil {
				return err
			}
			filter.Nodes = chosen
			list, err := lists.Devices(cmd.Context(), c, filter)
			if err != nil {
				return err
			}
			return printList(o, deviceList, list, noResources, lists.DeviceTable)
		},
	}
	o = newOutput(p.IOStreams, cmd, "table", "wide", "name")
	sortFlag(o, cmd, deviceList)
	nodes.register(p, cmd)
	cmd.Flags().StringVar(&filter.Class, "class", "", "only devices that this `DEVICECLASS` selects")
	cmd.Flags().StringVar(&filter.Expression, "cel", "", "only devices for which this CEL `EXPRESSION` is true, as in "+
		"the selector of a claim")
	complete(cmd, "class", p.completer(classNames))
	return cmd
}

func newClaims(p *plugin) *cobra.Command {
	var o *output
	var all bool
	var claims metav1.ListOptions
	cmd := &cobra.Command{
		Use:     "claims [CLAIM...]",
		Aliases: []string{"claim"},
		Short:   "Show the claims for RDMA devices",
		Long: `Show the ResourceClaims that have RDMA devices, or ask for them: those that name a
DeviceClass which selects devices of the driver.`,
		Example: `  kubectl rdma claims -A
  kubectl rdma claims -n training -l job=llm -o wide`,
		ValidArgsFunction: p.completer(claimNames),
		RunE: func(cmd *cobra.Command, names []string) error {
			namespace := metav1.NamespaceAll
			if !all {
				var err error
				if namespace, err = p.namespace(); err != nil {
					return err
				}
			}
			c, err := p.read(cmd.Context(), collect.Reader{Claims: claims, Namespace: namespace}, collect.Claims,
				collect.Classes, collect.Slices)
			if err != nil {
				return err
			}
			if err := known(resourceapi.Resource("resourceclaims"), names, c.Claims,
				func(r resourceapi.ResourceClaim) string { return r.Name }); err != nil {
				return err
			}
			list := lists.Claims(cmd.Context(), c)
			if len(names) > 0 {
				list = slices.DeleteFunc(list, func(c lists.Claim) bool { return !slices.Contains(names, c.Name) })
			}
			return printList(o, claimList, list, nothingIn(c, noneIn(namespace)),
				func(list []lists.Claim) *metav1.Table { return lists.ClaimTable(list, all, time.Now()) })
		},
	}
	o = newOutput(p.IOStreams, cmd, "table", "wide", "name")
	sortFlag(o, cmd, claimList)
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "show the claims of all namespaces")
	cmd.Flags().StringVarP(&claims.LabelSelector, "selector", "l", "", "label `SELECTOR` of the claims")
	return cmd
}
