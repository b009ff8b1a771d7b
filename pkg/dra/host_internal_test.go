package dra

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestKnownWhileItMoves: an HCA that is read while the kernel takes its files away stays known as it
// was: interfaces are attached by that.
func TestKnownWhileItMoves(t *testing.T) {
	root := rdmatest.Root(t, "roce-sriov")
	sys := sysfs.DirFS(filepath.Join(root, "sys"))
	h := &host{root: root, sys: sys, scanner: rdma.NewScanner(sys), seen: map[string]*rdma.HCA{}, changed: make(chan struct{}, 1)}
	if _, err := h.rescan(); err != nil {
		t.Fatal(err)
	}
	const name = "pci-0000-3b-00-0"
	before, ok := h.known(name)
	if !ok || before.Protocol != rdma.ProtocolRoCE {
		t.Fatalf("known is %+v, %v", before, ok)
	}
	ports, err := filepath.EvalSymlinks(filepath.Join(root, "sys/class/infiniband", before.IBDev, "ports"))
	if err == nil {
		err = os.RemoveAll(ports)
	}
	if err != nil {
		t.Fatal(err)
	}
	snap, err := h.rescan()
	if err != nil || snap.Lookup(name) == nil || len(snap.Lookup(name).Ports) > 0 {
		t.Fatalf("the host has %+v, %v", snap, err)
	}
	if after, _ := h.known(name); after.Protocol != before.Protocol || len(after.Ports) != len(before.Ports) {
		t.Errorf("known is %+v, and was %+v", after, before)
	}
}
