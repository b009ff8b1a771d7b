// Package member makes the virtual machine a node of a cluster with several nodes, whose control plane and tests are on
// the host. Tests have the node run commands by HTTP.
package member

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
)

// Port is where a member serves.
const Port = 9000

// Config says which node the machine is. The host passes it on as JSON.
type Config struct {
	// Number is that of the node, from 1 on, of Nodes.
	Number, Nodes int
	// ControlPlane is the directory of the control plane; Images are archives to import.
	ControlPlane string
	Images       []string
	// CoreDNS is the path of the program. Node 1 runs it for all.
	CoreDNS string
	// Management is the network device that connects nodes, pods and DNS.
	Management string
}

// Result is what a command printed and how it ended.
type Result struct {
	Out  string
	Code int
}

// patience is for emulated time, on a busy host.
const patience = 15 * time.Minute

// Main joins the cluster and serves until the machine ends.
func Main(config string) error {
	var c Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return fmt.Errorf("parse the member's configuration: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	node, err := c.join(ctx)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", Port))
	if err != nil {
		return err
	}
	fmt.Println("the node has joined") // the host reads its output
	mux := http.NewServeMux()
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) { run(node, w, r) })
	mux.HandleFunc("POST /restart/{component}", func(w http.ResponseWriter, r *http.Request) {
		if err := node.Restart(r.Context(), r.PathValue("component")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return http.Serve(l, mux)
}

// join brings containerd and the kubelet up, and connects the node's network with those of the other nodes.
func (c Config) join(ctx context.Context) (*cluster.Cluster, error) {
	_, dns := cluster.Node(1)
	node, err := cluster.Up(ctx, cluster.Options{
		WholeMachine: true, Join: c.ControlPlane, Node: c.Number, DNS: dns, Images: c.Images, Progress: os.Stdout,
	})
	if err != nil {
		return nil, err
	}
	if err := c.connect(); err != nil {
		return nil, fmt.Errorf("connect the node with the others: %w", err)
	}
	if c.Number == 1 {
		if err := c.serveNames(dns, node.Kubeconfig()); err != nil {
			return nil, err
		}
	}
	// The examples name an image of a registry.
	_, err = node.Output(ctx, "ctr", "images", "tag", "--force", vm.ToolsImage, "docker.io/library/busybox:1.37")
	return node, err
}

// connect makes the management device a port of the bridge that has the node's address, and adds a route to the pods of
// each other node.
func (c Config) connect() error {
	device, err := netlink.LinkByName(c.Management)
	if err != nil {
		return fmt.Errorf("find %s: %w", c.Management, err)
	}
	bridge, err := netlink.LinkByName(cluster.NodeLink)
	if err != nil {
		return fmt.Errorf("find %s: %w", cluster.NodeLink, err)
	}
	if err := errors.Join(netlink.LinkSetMaster(device, bridge), netlink.LinkSetUp(device)); err != nil {
		return fmt.Errorf("make %s a port of %s: %w", c.Management, cluster.NodeLink, err)
	}
	for n := 1; n <= c.Nodes; n++ {
		if n == c.Number {
			continue
		}
		_, address := cluster.Node(n)
		_, pods, err := net.ParseCIDR(cluster.PodCIDR(n))
		if err != nil {
			return err
		}
		if err := netlink.RouteAdd(&netlink.Route{Dst: pods, Gw: net.ParseIP(address)}); err != nil {
			return fmt.Errorf("add a route to the pods %s of node %d: %w", pods, n, err)
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}

// corefile answers for Services and their pods alone.
const corefile = `.:53 {
    bind %s
    errors
    kubernetes cluster.local {
        kubeconfig %s
    }
    cache 5
}
`

// serveNames starts CoreDNS. It ends with the machine.
func (c Config) serveNames(address, kubeconfig string) error {
	path := filepath.Join(os.TempDir(), "Corefile")
	if err := os.WriteFile(path, fmt.Appendf(nil, corefile, address, kubeconfig), 0o600); err != nil {
		return fmt.Errorf("write the configuration of CoreDNS: %w", err)
	}
	cmd := exec.Command(c.CoreDNS, "-conf", path)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start CoreDNS: %w", err)
	}
	return nil
}

// run runs a command on the node, in its namespaces. The request has the command as JSON.
func run(node *cluster.Cluster, w http.ResponseWriter, r *http.Request) {
	var argv []string
	if err := json.NewDecoder(r.Body).Decode(&argv); err != nil || len(argv) == 0 {
		http.Error(w, fmt.Sprintf("read the command: %v", err), http.StatusBadRequest)
		return
	}
	cmd := node.Command(r.Context(), argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := node.Run(cmd); err != nil && cmd.ProcessState == nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(Result{out.String(), cmd.ProcessState.ExitCode()})
}
