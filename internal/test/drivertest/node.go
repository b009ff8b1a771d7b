package drivertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// Worker is what a driver meets on its own node: hardware, kubelet and CDI directory.
type Worker struct {
	*Host
	*Kubelet
	// StateDir is where the driver keeps what it knows of claims.
	StateDir string
	// CDIDir is where the driver writes specs. It does not exist yet.
	CDIDir string
}

// Node is a worker with an API server.
type Node struct {
	*Worker
	*API
}

// NewWorker makes a worker with the hardware of a fixture machine.
func NewWorker(t testing.TB, machine string) *Worker {
	t.Helper()
	return WorkerOf(t, NewHost(t, machine), NewKubelet(t))
}

// NewNode makes a node with the hardware of a fixture machine.
func NewNode(t testing.TB, machine string) *Node {
	t.Helper()
	return &Node{Worker: NewWorker(t, machine), API: NewAPI(t)}
}

// WorkerOf makes a worker of its parts.
func WorkerOf(t testing.TB, host *Host, kubelet *Kubelet) *Worker {
	t.Helper()
	run := TempDir(t) // a tmpfs, as on a node
	return &Worker{Host: host, Kubelet: kubelet, StateDir: filepath.Join(run, "state"), CDIDir: filepath.Join(run, "cdi")}
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
	if podUID != "" {
		n.AddPodCgroup(t, podUID)
	}
	return append(n.Flags(podUID), "--kubeconfig", n.Kubeconfig(t))
}

// Flags are those of a driver of this worker, but for the way to its API server.
func (w *Worker) Flags(podUID string) []string {
	return []string{
		"--node-name", NodeName, "--pod-uid", podUID, "--host-root", w.Root, "--kubelet-dir", w.Dir,
		"--state-dir", w.StateDir, "--cdi-dir", w.CDIDir, "--hook-dir", "",
	}
}

// RecordDir is where the driver keeps the records of claims.
func (w *Worker) RecordDir() string { return filepath.Join(w.StateDir, "claims") }

// BootID is the ID of this boot, as records have it.
func BootID(t testing.TB) string {
	t.Helper()
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	must.NoError(t, err)
	return strings.TrimSpace(string(id))
}
