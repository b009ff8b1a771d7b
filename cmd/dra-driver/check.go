package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/installcheck"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// installFlags name the objects of a release.
type installFlags struct {
	kubeconfig, namespace, drivers, test string
	timeout                              time.Duration
}

var installCodes = exitcode.List{
	exitcode.OK: "a pod got an HCA", exitcode.Failed: "something does not work, or the API server does not answer",
	exitcode.Usage: exitcode.BadUsage,
}

func newInstallCheck(env func(string) string) *cobra.Command {
	var i installFlags
	cmd := &cobra.Command{
		Use:   "install-check",
		Short: "Check that the drivers are ready and that a test pod gets an HCA",
		Long: `install-check reads the driver's DaemonSet, its devices and a test pod from the API server.
It prints what works, and the first problem with what to do. It changes nothing.
helm test runs it, beside a test pod that runs container-check.

` + installCodes.Help(),
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if i.namespace == "" || i.drivers == "" || i.test == "" {
				return cli.Usagef("name the release with --namespace, --daemonset and --replicaset")
			}
			client, _, err := newClient(i.kubeconfig)
			if err != nil {
				return err
			}
			return i.check(cmd.Context(), client, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&i.kubeconfig, "kubeconfig", env("KUBECONFIG"),
		"kubeconfig `FILE` (default $KUBECONFIG, else the pod's service account)")
	f.StringVar(&i.namespace, "namespace", "", "`NAMESPACE` of the release")
	f.StringVar(&i.drivers, "daemonset", "", "`NAME` of the driver's DaemonSet")
	f.StringVar(&i.test, "replicaset", "", "`NAME` of the ReplicaSet with the test pod")
	f.DurationVar(&i.timeout, "timeout", time.Minute, "`TIME` to wait for drivers, devices and the test pod")
	return cmd
}

// checkInterval is the time between two looks at the release.
const checkInterval = time.Second

// check looks at the release until the result is final or the time is over, and prints the last result.
func (i *installFlags) check(ctx context.Context, client kubernetes.Interface, out io.Writer) error {
	deadline, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	var result installcheck.Result
	for {
		state, err := i.read(ctx, client)
		if err != nil {
			return err
		}
		result = installcheck.Judge(state)
		if result.Final || !loop.Sleep(deadline, checkInterval) {
			break
		}
	}
	for _, f := range result.Findings {
		if f.Severity.Bad() {
			return errors.New(strings.TrimSuffix(f.Message+"; "+f.Remedy, "; "))
		}
		text.Fprintf(out, "ok: %s\n", f.Message)
	}
	return nil
}

// read reads the state of the release.
func (i *installFlags) read(ctx context.Context, client kubernetes.Interface) (s installcheck.State, err error) {
	apps, core := client.AppsV1(), client.CoreV1()
	s.Drivers, err = apps.DaemonSets(i.namespace).Get(ctx, i.drivers, metav1.GetOptions{})
	if err == nil {
		err = answer.About(s.Drivers, i.namespace, i.drivers)
	}
	if err != nil {
		return s, fmt.Errorf("get the driver's DaemonSet: %w; install the chart again with helm upgrade", err)
	}
	s.Test, err = apps.ReplicaSets(i.namespace).Get(ctx, i.test, metav1.GetOptions{})
	if err == nil {
		err = answer.About(s.Test, i.namespace, i.test)
	}
	if err != nil {
		return s, fmt.Errorf("get the ReplicaSet of the test pod: %w; run the check by helm test", err)
	}
	pods, err := answer.Listed(core.Pods(i.namespace).List(ctx, metav1.ListOptions{}))
	if err != nil {
		return s, fmt.Errorf("list the pods of namespace %s: %w", i.namespace, err)
	}
	warnings, err := answer.Listed(core.Events(i.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "type=" + corev1.EventTypeWarning}))
	if err != nil {
		return s, fmt.Errorf("list the events of namespace %s: %w", i.namespace, err)
	}
	published, err := answer.Listed(client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: "spec.driver=" + rdma.Domain}))
	if err != nil {
		return s, fmt.Errorf("list ResourceSlices: %w", err)
	}
	s.DriverPods, s.TestPods = ownedBy(pods.Items, s.Drivers), ownedBy(pods.Items, s.Test)
	s.Slices, s.Warnings = published.Items, warnings.Items
	return s, nil
}

// ownedBy returns the pods of a controller. Those of an earlier test have another one.
func ownedBy(pods []corev1.Pod, owner metav1.Object) (found []corev1.Pod) {
	for _, p := range pods {
		if metav1.IsControlledBy(&p, owner) {
			found = append(found, p)
		}
	}
	return found
}

var containerCodes = exitcode.List{
	exitcode.OK: "it has an HCA", exitcode.Failed: "something is missing", exitcode.Usage: exitcode.BadUsage,
}

func newContainerCheck() *cobra.Command {
	var message string
	c := installcheck.Container{Dir: "/dev/infiniband"}
	cmd := &cobra.Command{
		Use:   "container-check",
		Short: "Check that this container has an HCA and may lock memory",
		Long: `container-check opens the uverbs nodes of this container, and reads its limit of locked
memory. Run it in a container with a claim. helm test does.

` + containerCodes.Help(),
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := c.Memlock.Bytes(); err != nil {
				return cli.Usagef("--memlock %q: %w", c.Memlock, err)
			}
			found, err := c.Check()
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), found)
			}
			if err == nil && message != "" {
				err = installcheck.WriteTerminationLog(message, found)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar((*string)(&c.Memlock), "memlock", string(v1alpha1.MemlockUnlimited),
		"least soft limit (`SIZE`) of locked memory: unlimited, a size such as 4Gi, or inherit for any")
	f.StringVar(&message, "termination-log", "", "`FILE` for the result too: terminationMessagePath of the container")
	f.BoolVar(&c.Fixture, "fixture", false, "accept nodes without a device behind them, as on the hosts of tests")
	return cmd
}
