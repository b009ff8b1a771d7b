package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"text/tabwriter"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

// demo goes from a bundled host to containers with an HCA.
type demo struct {
	checkout deploy.Checkout
	options  cluster.Options
	machine  string
	c        *cluster.Cluster
	step     int
}

// say announces a step and explains what will be seen.
func (d *demo) say(title, text string) {
	d.step++
	title = fmt.Sprintf("%d. %s", d.step, title)
	if info, err := os.Stdout.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		title = "\033[1m" + title + "\033[0m" // bold, on a terminal
	}
	fmt.Printf("\n%s\n%s\n\n", title, strings.TrimSpace(text))
}

// show prints a command and its output, indented.
func (d *demo) show(ctx context.Context, name string, args ...string) error {
	fmt.Printf("  $ %s %s\n", name, strings.Join(args, " "))
	out, err := d.c.Output(ctx, name, args...)
	printIndented(out)
	return err
}

func printIndented(out string) {
	for line := range strings.Lines(out) {
		fmt.Print("    ", line)
	}
}

// quiet runs a command without showing it.
func (d *demo) quiet(ctx context.Context, name string, args ...string) error {
	_, err := d.c.Output(ctx, name, args...)
	return err
}

func (d *demo) host(ctx context.Context) error {
	d.say("A host with RDMA devices", `
This machine need not have any: the demo brings a host along, its sysfs in a
directory. cdi-gen, the program for podman, docker and containerd without
Kubernetes, lists what is there. The names in the column DEVICE come from the PCI
slot and stay over reboots; those in IBDEV are the kernel's and do not.`)
	if err := d.checkout.ExtractHost(ctx, d.machine, d.options.HostRoot); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, d.checkout.Program("cdi-gen"), "list", "--host-root", d.options.HostRoot)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	fmt.Println("  $ cdi-gen list")
	printIndented(string(out))
	return err
}

func (d *demo) cluster(ctx context.Context) (err error) {
	d.say("A real Kubernetes cluster", `
etcd, API server, scheduler, controller manager, containerd and kubelet run as
processes in namespaces of their own, with this host's device nodes made by mknod
in a private /dev. (The first time, they are built from source: some minutes.)
containerd runs with a locked memory limit of 64 KiB, as on many nodes.`)
	d.c, err = cluster.Up(ctx, d.options)
	return err
}

func (d *demo) install(ctx context.Context) error {
	d.say("Install the driver", `
As a user would: the image, and the Helm chart. Its pod is unprivileged: no
capability, read-only root. It reads the host's sysfs and publishes each RDMA
device (HCA) in a ResourceSlice, from which the Kubernetes scheduler allocates.`)
	if err := d.checkout.Load(ctx, d.c); err != nil {
		return err
	}
	fmt.Println("  $ helm install dra-driver-rdma deployments/helm/dra-driver-rdma --wait")
	if err := d.checkout.Install(ctx, d.c, d.options.HostRoot); err != nil {
		return err
	}
	if err := d.show(ctx, "kubectl", "get", "pods", "--namespace", deploy.Namespace); err != nil {
		return err
	}
	if err := d.quiet(ctx, "kubectl", "wait", "--for=create", "resourceslice",
		"--field-selector", "spec.driver=rdma.dev", "--timeout=30s"); err != nil {
		return err
	}
	return d.showSlices(ctx)
}

// slices is what the demo reads of a list of ResourceSlices.
type slices struct {
	Items []struct {
		Spec struct {
			Pool    struct{ Name string }
			Devices []struct {
				Name       string
				Attributes map[string]map[string]any
			}
		}
	}
}

func (d *demo) showSlices(ctx context.Context) error {
	out, err := d.c.Output(ctx, "kubectl", "get", "resourceslices", "--field-selector", "spec.driver=rdma.dev",
		"-o", "json")
	if err != nil {
		return err
	}
	var list slices
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return fmt.Errorf("read resource slices: %w", err)
	}
	fmt.Println("\n  The ResourceSlices, as a table:")
	tw := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	columns := []string{"ibdev", "protocol", "rateGbps", "resource.kubernetes.io/numaNode",
		"resource.kubernetes.io/pcieRoot", "pcieSwitch"}
	fmt.Fprintln(tw, "    POOL\tDEVICE\tIBDEV\tPROTOCOL\tGBIT/S\tNUMA\tPCIE ROOT\tPCIE SWITCH")
	for _, item := range list.Items {
		for _, device := range item.Spec.Devices {
			row := []string{"    " + item.Spec.Pool.Name, device.Name}
			for _, column := range columns {
				row = append(row, attribute(device.Attributes[column]))
			}
			fmt.Fprintln(tw, strings.Join(row, "\t"))
		}
	}
	return tw.Flush()
}

// attribute prints the one value that an attribute has.
func attribute(values map[string]any) string {
	for _, v := range values {
		return fmt.Sprint(v)
	}
	return "-"
}

func (d *demo) twoContainers(ctx context.Context) error {
	d.say("One pod, two containers, one HCA", `
examples/two-containers.yaml: the pod has a claim made from a
ResourceClaimTemplate, and two of its three containers name it. They see one and the
same uverbs node (each HCA has its own) and rdma_cm, and their locked memory limit
is raised as far as this machine permits (to unlimited where containerd has
CAP_SYS_RESOURCE). They are user 1000 without capabilities. The third container
names no claim: it sees no node, and has the 64 KiB that made RDMA fail.`)
	manifest, err := os.ReadFile(d.checkout.Example("two-containers"))
	if err != nil {
		return err
	}
	fmt.Println("  $ kubectl apply -f examples/two-containers.yaml")
	if err := d.apply(ctx, string(manifest), "two-containers", "Ready"); err != nil {
		return err
	}
	for _, container := range []string{"sender", "receiver", "bystander"} {
		fmt.Printf("\n  In the container %s:\n", container)
		out, err := d.c.Output(ctx, "kubectl", "logs", "two-containers", "-c", container)
		if err != nil {
			return err
		}
		printIndented(out)
	}
	return nil
}

// apply applies a manifest and waits for a condition of its pod.
func (d *demo) apply(ctx context.Context, manifest, pod, condition string) error {
	cmd := d.c.Command(ctx, "kubectl", "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	cmd.Stderr = os.Stderr
	if err := d.c.Run(cmd); err != nil {
		return fmt.Errorf("apply the manifest of pod %s: %w", pod, err)
	}
	if err := d.quiet(ctx, "kubectl", "wait", "--for=condition="+condition, "pod/"+pod, "--timeout=60s"); err != nil {
		events, _ := d.c.Output(context.WithoutCancel(ctx), "kubectl", "describe", "pod", pod)
		return fmt.Errorf("%w\n%s", err, events)
	}
	return nil
}

func (d *demo) waitingPod(ctx context.Context) error {
	d.say("A pod waits, and why", `
Somebody drains the node for a repair; the first pod keeps its HCA. The same manifest
under another name makes another claim, which gets none. kubectl rdma why asks the
scheduler's own allocator for the cause. When the drain ends, the pod runs.`)
	if err := d.show(ctx, "kubectl", "rdma", "drain", cluster.NodeName, "--reason=firmware-update"); err != nil {
		return err
	}
	data, err := os.ReadFile(d.checkout.Example("two-containers"))
	if err != nil {
		return err
	}
	second := strings.ReplaceAll(string(data), "name: two-containers", "name: another-pod")
	fmt.Println("\n  $ sed 's/name: two-containers/name: another-pod/' examples/two-containers.yaml | kubectl apply -f -")
	if err := d.apply(ctx, second, "another-pod", "PodScheduled=False"); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"rdma", "why", "another-pod"},
		{"rdma", "undrain", cluster.NodeName},
		{"wait", "--for=condition=Ready", "pod/another-pod", "--timeout=60s"},
		{"rdma", "claims"},
	} {
		fmt.Println()
		if err := d.show(ctx, "kubectl", args...); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) cleanUp(ctx context.Context) error {
	d.say("The pods go, and everything of theirs", `
On the node, one CDI spec for each claim says what its containers get. The kubelet
tells the driver when the last pod of a claim is gone.`)
	if err := d.show(ctx, "ls", "/var/run/cdi"); err != nil {
		return err
	}
	if err := d.show(ctx, "kubectl", "delete", "pods", "two-containers", "another-pod", "--wait"); err != nil {
		return err
	}
	if err := d.quiet(ctx, "sh", "-c", "for i in $(seq 100); do "+
		"ls /var/run/cdi/rdma.dev-claim_* >/dev/null 2>&1 || exit 0; sleep 0.1; done; exit 1"); err != nil {
		return fmt.Errorf("the CDI specs of the claims are still there: %w", err)
	}
	if err := d.show(ctx, "ls", "-A", "/var/run/cdi"); err != nil {
		return err
	}
	fmt.Println("    (empty)\n\nThat was all. README.md says how to install it on a cluster of yours. " +
		"There, one command\nshows all of it as one page: kubectl rdma report > fabric.html")
	return nil
}
