package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/checkout"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/pki"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/sandbox"
)

// The cluster's fixed names and addresses. They exist only inside its network
// namespace.
const (
	// NodeName is the name of the only node, or the first one, and of its host.
	NodeName = "node1"
	// NodeIP is the address of that node.
	NodeIP = "10.99.0.1"
	// NodeLink is the bridge that has a node's address.
	NodeLink = sandbox.NodeLink
	// ServiceIP is the address of the kubernetes service.
	ServiceIP = "10.96.0.1"
	// ContainerdSocket is the default path, inside.
	ContainerdSocket = "/run/containerd/containerd.sock"
	// PauseImage and BusyboxImage are imported by Up; use them with
	// imagePullPolicy: Never.
	PauseImage   = "localhost/pause:testbed"
	BusyboxImage = "localhost/busybox:testbed"
	// DefaultKubeletDir is the root directory of most kubelets.
	DefaultKubeletDir = "/var/lib/kubelet"
)

// Node is the name and the address of the n-th node, from 1 on.
func Node(n int) (name, address string) {
	return fmt.Sprintf("node%d", n), fmt.Sprintf("10.99.0.%d", n)
}

// PodCIDR is the network of the pods of the n-th node, from 1 on.
func PodCIDR(n int) string { return fmt.Sprintf("10.244.%d.0/24", n-1) }

// nodes are the first n nodes.
func nodes(n int) (all []pki.Node) {
	for i := range n {
		name, address := Node(i + 1)
		all = append(all, pki.Node{Name: name, IP: address})
	}
	return all
}

// node is the node of this machine.
func (o Options) node() pki.Node { return nodes(o.Node)[o.Node-1] }

// Options say what cluster is wanted. The zero value is a good default.
type Options struct {
	// HostRoot is the directory of a fixture host, with sys/ below. Its RDMA device
	// nodes are made in the cluster's private /dev, which appears as HostRoot/dev.
	// If it has a directory sys/fs/cgroup, the cluster's cgroups appear there.
	HostRoot string `json:"hostRoot,omitempty"`
	// WholeMachine gives the cluster the machine's own network, /dev and disk, so that what
	// happens to the machine's devices happens to the node, and a reboot of the machine is one
	// of the node: Up goes on with the state directory of before. It is for a virtual machine
	// that ends with the cluster: Down does not undo what it does to them.
	WholeMachine bool `json:"wholeMachine,omitempty"`
	// Join is the directory of a ControlPlane on another machine, for whose node this is
	// containerd and the kubelet alone. The machine reaches it at ServiceIP, port 443. Without
	// WholeMachine it is the state directory of a cluster on this machine, whose second node this is.
	Join string `json:"join,omitempty"`
	// Node is the number of the node that joins; 0 stands for 1. Node n is called nodeN.
	Node int `json:"node,omitempty"`
	// NodesAt are where a ControlPlane reaches the kubelets of its nodes, from node 1 on, whatever addresses
	// these have: host and port.
	NodesAt []string `json:"nodesAt,omitempty"`
	// DNS is the address of the DNS server of pods; without it they have none.
	DNS string `json:"dns,omitempty"`
	// KubeletDir is the kubelet's root directory, below /var; empty for DefaultKubeletDir.
	KubeletDir string `json:"kubeletDir,omitempty"`
	// Kubernetes is the minor version to run: 1.34, the oldest that the driver works
	// with, 1.35, 1.36, or empty for the newest that there is.
	Kubernetes string `json:"kubernetes,omitempty"`
	// FeatureGates go to every Kubernetes component.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// RuntimeConfig goes to the API server: "resource.k8s.io/v1alpha3=true".
	RuntimeConfig string `json:"runtimeConfig,omitempty"`
	// Verbosity is the --v of every Kubernetes component; 0 stands for 2.
	Verbosity int `json:"verbosity,omitempty"`

	// StateDir holds logs, keys and data; DefaultStateDir when empty.
	StateDir string `json:"-"`
	// CacheDir holds the built programs; DefaultCacheDir when empty.
	CacheDir string `json:"-"`
	// SourceDir is the directory test/cluster of the checkout; found by itself
	// where possible.
	SourceDir string `json:"-"`
	// Images are archives of images (docker-archive or OCI layout) that a new cluster has
	// before its kubelet starts.
	Images []string `json:"-"`
	// Progress receives one line per step; nil for silence.
	Progress io.Writer `json:"-"`
}

// DefaultCacheDir is $DRA_RDMA_CACHE, or dra-driver-rdma in the user's cache.
func DefaultCacheDir() (string, error) {
	if dir := os.Getenv("DRA_RDMA_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w (set DRA_RDMA_CACHE)", err)
	}
	return filepath.Join(dir, "dra-driver-rdma"), nil
}

// DefaultStateDir is dra-driver-rdma/cluster in $XDG_STATE_HOME, or cluster in the
// cache.
func DefaultStateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "dra-driver-rdma", "cluster"), nil
	}
	cache, err := DefaultCacheDir()
	return filepath.Join(cache, "cluster"), err
}

// complete fills in the defaults, but for the source directory, and makes every path
// absolute.
func (o Options) complete() (Options, error) {
	var errs []error
	fill := func(dir *string, byDefault func() (string, error)) {
		var err error
		if *dir == "" && byDefault != nil {
			*dir, err = byDefault()
		}
		if *dir != "" && err == nil {
			*dir, err = filepath.Abs(*dir)
		}
		errs = append(errs, err)
	}
	fill(&o.CacheDir, DefaultCacheDir)
	fill(&o.StateDir, DefaultStateDir)
	fill(&o.SourceDir, nil)
	fill(&o.HostRoot, nil)
	if o.Node == 0 {
		o.Node = 1
	}
	if o.Verbosity == 0 {
		o.Verbosity = 2
	}
	if o.KubeletDir == "" {
		o.KubeletDir = DefaultKubeletDir
	}
	errs = append(errs, o.Validate())
	return o, errors.Join(errs...)
}

// findSource finds test/cluster in the checkout that the working directory is in.
func findSource() (string, error) {
	root, err := checkout.Root()
	return filepath.Join(root, "test", "cluster"), err
}

// gates renders the feature gates as the flag wants them.
func (o Options) gates() string {
	var gates []string
	for name, on := range o.FeatureGates {
		gates = append(gates, fmt.Sprintf("%s=%t", name, on))
	}
	sort.Strings(gates)
	return strings.Join(gates, ",")
}
