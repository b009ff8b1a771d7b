package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var uninstallCodes = exitcode.List{
	exitcode.OK: "no claim has a device", exitcode.Failed: "claims have devices, or the API server does not answer",
	exitcode.Usage: exitcode.BadUsage,
}

func newUninstallCheck(env func(string) string) *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "uninstall-check",
		Short: "Fail while claims of the cluster have devices of this driver",
		Long: `uninstall-check lists the claims of the whole cluster that have devices of this driver, and
fails if there are any: without the driver their pods could neither start nor end.
The chart runs it before it is uninstalled.

` + uninstallCodes.Help(),
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, _, err := newClient(kubeconfig)
			if err != nil {
				return err
			}
			return checkUninstall(cmd.Context(), client, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", env("KUBECONFIG"),
		"kubeconfig `FILE` (default $KUBECONFIG, else the pod's service account)")
	return cmd
}

// checkUninstall prints the claims that have devices of the driver, and returns an error if there are any.
func checkUninstall(ctx context.Context, client kubernetes.Interface, out io.Writer) error {
	claims, err := claimsInUse(ctx, client)
	if err != nil {
		return err
	}
	if len(claims) == 0 {
		return nil
	}
	var rows [][]string
	for _, c := range claims {
		for _, r := range plan.Results(c) {
			rows = append(rows, []string{c.Namespace, c.Name, r.Pool, r.Device, usedBy(c)})
		}
	}
	if err := text.Table(out, "NAMESPACE\tCLAIM\tNODE\tDEVICE\tUSED BY", rows); err != nil {
		return fmt.Errorf("print the claims: %w", err)
	}
	have := "claims have"
	if len(claims) == 1 {
		have = "claim has"
	}
	return fmt.Errorf("%d %s devices of driver %s: delete the pods that use them first, and the claims that "+
		"are not made from templates; "+
		"to uninstall all the same, run helm uninstall with --no-hooks: those pods then stay Terminating until the driver "+
		"is installed again", len(claims), have, rdma.Domain)
}

// claimsInUse reads the claims in pages. A large cluster has tens of thousands of claims.
func claimsInUse(ctx context.Context, client kubernetes.Interface) (found []*resourceapi.ResourceClaim, err error) {
	err = pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		// An empty answer of somebody else would let the driver be uninstalled.
		return answer.Listed(client.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, o))
	}).EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		if c := item.(*resourceapi.ResourceClaim); len(plan.Results(c)) > 0 {
			found = append(found, c)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the ResourceClaims of all namespaces: %w", err)
	}
	return found, nil
}

// usedBy returns the first user of a claim and the number of others, as text.
func usedBy(c *resourceapi.ResourceClaim) string {
	users := c.Status.ReservedFor
	switch len(users) {
	case 0:
		return "nobody"
	case 1:
		return users[0].Resource + "/" + users[0].Name
	}
	return fmt.Sprintf("%s/%s and %d more", users[0].Resource, users[0].Name, len(users)-1)
}
