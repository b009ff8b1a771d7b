package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
)

// completeTime bounds the wait of the user's shell.
const completeTime = 3 * time.Second

// complete sets the completion of a flag. It panics if the flag does not exist.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// lister lists names that can follow args, in the user's namespace if they have one.
type lister func(ctx context.Context, client kubernetes.Interface, namespace string, args []string) ([]string, error)

// completer returns a completion of names. The completion is empty if the API server does not answer.
func (p *plugin) completer(list lister) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completeTime)
		defer cancel()
		namespace, err := p.namespace()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		client, err := p.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		found, err := list(ctx, client, namespace, args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found = slices.DeleteFunc(found, func(n string) bool { return !strings.HasPrefix(n, prefix) })
		slices.Sort(found)
		return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
	}
}

// objectNames returns the names in the answer to a list request.
func objectNames(list runtime.Object, err error) (out []string, _ error) {
	if err != nil {
		return nil, err
	}
	err = meta.EachListItem(list, func(object runtime.Object) error {
		out = append(out, object.(metav1.Object).GetName())
		return nil
	})
	return out, err
}

// podNames lists the pods for a command that takes one pod.
func podNames(ctx context.Context, client kubernetes.Interface, namespace string, args []string) ([]string, error) {
	if len(args) > 0 {
		return nil, nil
	}
	return objectNames(client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 500}))
}

func nodeNames(ctx context.Context, client kubernetes.Interface, _ string, args []string) (out []string, err error) {
	c, err := collect.Reader{Client: client}.Read(ctx, collect.Slices)
	if err != nil {
		return nil, err
	}
	for _, s := range c.Slices {
		if name := s.Spec.NodeName; name != nil && !slices.Contains(args, *name) {
			out = append(out, *name)
		}
	}
	return out, nil
}

func classNames(ctx context.Context, client kubernetes.Interface, _ string, _ []string) ([]string, error) {
	return objectNames(client.ResourceV1().DeviceClasses().List(ctx, metav1.ListOptions{}))
}

func claimNames(ctx context.Context, client kubernetes.Interface, namespace string, args []string) (out []string,
	err error) {
	c, err := collect.Reader{Client: client, Namespace: namespace}.Read(ctx, collect.Claims, collect.Classes)
	if err != nil {
		return nil, err
	}
	for _, claim := range lists.Claims(ctx, c) {
		if !slices.Contains(args, claim.Name) {
			out = append(out, claim.Name)
		}
	}
	return out, nil
}

func namespaceNames(ctx context.Context, client kubernetes.Interface, _ string, _ []string) ([]string, error) {
	return objectNames(client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}))
}

// contexts returns a completion of the contexts of the kubeconfig.
func contexts(flags *genericclioptions.ConfigFlags) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		config, err := flags.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
	}
}
