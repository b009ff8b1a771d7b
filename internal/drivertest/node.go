package drivertest

import (
	"path/filepath"
	"testing"
)

// Worker is what a driver meets on its own node: hardware, kubelet and CDI directory.
type Worker struct {
	*Host
	*Kubelet
	// CDIDir is where the driver writes specs. It does not exist yet.
	CDIDir string
}

// Node is a worker with an API server.
type Node struct {
	*Worker
	*API
}

// NewWorker makes a worker for drivers that run as programs.
func NewWorker(t testing.TB, machine string) *Worker {
	t.Helper()
	return newWorker(t, NewHost(t, machine))
}

// NewNode makes a node for drivers that run as programs.
func NewNode(t testing.TB, machine string) *Node {
	t.Helper()
	return &Node{Worker: NewWorker(t, machine), API: NewAPI(t)}
}

// NewSharedNode makes a node for a driver in the test's own process.
func NewSharedNode(t testing.TB, machine string) *Node {
	t.Helper()
	return &Node{Worker: newWorker(t, NewSharedHost(t, machine)), API: NewAPI(t)}
}

func newWorker(t testing.TB, host *Host) *Worker {
	t.Helper()
	return &Worker{Host: host, Kubelet: NewKubelet(t), CDIDir: filepath.Join(TempDir(t), "cdi")}
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
	return append(n.Flags(podUID), "--kubeconfig", n.Kubeconfig(t))
}

// Flags are those of a driver of this worker, but for the way to its API server.
func (w *Worker) Flags(podUID string) []string {
	return []string{
		"--node-name", NodeName, "--pod-uid", podUID, "--host-root", w.Root, "--kubelet-dir", w.Dir,
		"--cdi-dir", w.CDIDir, "--hook-dir", "",
	}
}

// RecordDir is where the driver keeps the records of claims.
func (w *Worker) RecordDir() string { return filepath.Join(w.PluginDir(), "claims") }
