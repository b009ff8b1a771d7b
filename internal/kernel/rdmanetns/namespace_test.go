package rdmanetns_test

import (
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

// TestSysfs: a namespace has the sysfs of its own interfaces, whatever the caller's has.
func TestSysfs(t *testing.T) {
	pod := podnettest.New(t)
	pod.IP("link add rdma0 type veth peer name wire")
	pod.IP("link set rdma0 address 02:00:00:00:00:07")
	var names []string
	var mac string
	if err := pod.Sysfs(func(sys fs.FS) error {
		links, err := fs.ReadDir(sys, "class/net")
		for _, l := range links {
			names = append(names, l.Name())
		}
		if err != nil {
			return err
		}
		data, err := fs.ReadFile(sys, "class/net/rdma0/address")
		mac = string(data)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"lo", "rdma0", "wire"}, names); diff != "" || mac != "02:00:00:00:00:07\n" {
		t.Errorf("rdma0 has %q, interfaces (-want +got):\n%s", mac, diff)
	}
}
