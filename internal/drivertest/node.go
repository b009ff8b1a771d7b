package drivertest

import (
	"path/filepath"
	"testing"
)

// Node is a whole node: hardware, API server, kubelet and CDI directory.
type Node struct {
	*Host
	*API
	*Kubelet
	// StateDir is where the driver keeps what it knows of claims.
	StateDir string
	// CDIDir is where the driver writes specs. It does not exist yet.
	CDIDir string
}

// NewNode makes a node for drivers that run as programs.
func NewNode(t testing.TB, machine string) *Node {
	t.Helper()
	return newNode(t, NewHost(t, machine))
}

// NewSharedNode makes a node for a driver in the test's own process.
func NewSharedNode(t testing.TB, machine string) *Node {
	t.Helper()
	return newNode(t, NewSharedHost(t, machine))
}

func newNode(t testing.TB, host *Host) *Node {
	t.Helper()
	return NodeOf(t, host, NewKubelet(t))
}

// NodeOf makes a node of its parts.
func NodeOf(t testing.TB, host *Host, kubelet *Kubelet) *Node {
	t.Helper()
	run := TempDir(t) // a tmpfs, as on a node
	return &Node{Host: host, API: NewAPI(t), Kubelet: kubelet, StateDir: filepath.Join(run, "state"), CDIDir: filepath.Join(run, "cdi")}
}

// Start starts the driver as a program and waits until the kubelet has registered
// it. The pod UID may be empty.
func (n *Node) Start(t testing.TB, podUID string, args ...string) *Process {
	t.Helper()
	have := len(n.Sockets())
	p := StartProcess(t, append(n.Args(t, podUID), args...)...)
	n.WaitForPlugins(have + 1)
	return p
}

// Args are the flags of a driver of this node.
func (n *Node) Args(t testing.TB, podUID string) []string {
	t.Helper()
	return []string{
		"--node-name", NodeName, "--pod-uid", podUID, "--host-root", n.Root, "--kubelet-dir", n.Dir,
		"--state-dir", n.StateDir, "--cdi-dir", n.CDIDir, "--kubeconfig", n.Kubeconfig(t), "--hook-dir", "",
	}
}

// RecordDir is where the driver keeps the records of claims.
func (n *Node) RecordDir() string { return filepath.Join(n.StateDir, "claims") }
