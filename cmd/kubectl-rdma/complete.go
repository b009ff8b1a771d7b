package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/pkg/inspect/collect"
)

// completeTime is how long the user's shell waits at most.
const completeTime = 3 * time.Second

// complete completes the value of a flag, which must exist.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// names completes names that a function lists. An API server that cannot be asked
// completes nothing.
func (p *plugin) names(prefix string, list func(context.Context, kubernetes.Interface) ([]string, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	client, err := p.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	found, err := list(ctx, client)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found = slices.DeleteFunc(found, func(n string) bool { return !strings.HasPrefix(n, prefix) })
	slices.Sort(found)
	return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
}

func (p *plugin) completePods(_ *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.names(prefix, func(ctx context.Context, client kubernetes.Interface) (out []string, err error) {
		namespace, err := p.namespace()
		if err != nil {
			return nil, err
		}
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 500})
		if err != nil {
			return nil, err
		}
		for _, pod := range pods.Items {
			out = append(out, pod.Name)
		}
		return out, nil
	})
}

func (p *plugin) completeNodes(_ *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.names(prefix, func(ctx context.Context, client kubernetes.Interface) (out []string, err error) {
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
	})
}

func (p *plugin) completeClasses(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.names("", func(ctx context.Context, client kubernetes.Interface) (out []string, err error) {
		c, err := collect.Reader{Client: client}.Read(ctx, collect.Classes)
		if err != nil {
			return nil, err
		}
		for _, class := range c.Classes {
			out = append(out, class.Name)
		}
		return out, nil
	})
}

func (p *plugin) completeClaims(_ *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.names(prefix, func(ctx context.Context, client kubernetes.Interface) (out []string, err error) {
		namespace, err := p.namespace()
		if err != nil {
			return nil, err
		}
		c, err := collect.Reader{Client: client, Namespace: namespace}.Read(ctx, collect.Claims, collect.Classes)
		if err != nil {
			return nil, err
		}
		for _, claim := range c.ListClaims(ctx) {
			if !slices.Contains(args, claim.Name) {
				out = append(out, claim.Name)
			}
		}
		return out, nil
	})
}

func (p *plugin) completeNamespaces(_ *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.names(prefix, func(ctx context.Context, client kubernetes.Interface) (out []string, err error) {
		list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, ns := range list.Items {
			out = append(out, ns.Name)
		}
		return out, nil
	})
}

func (p *plugin) completeContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := p.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for name := range config.Contexts {
		out = append(out, name)
	}
	slices.Sort(out)
	return out, cobra.ShellCompDirectiveNoFileComp
}
