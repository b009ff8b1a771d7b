package deviceinfo_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/deviceinfo"
)

// files are the names in a directory and what is in them.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must.NoError(t, err)
		out[e.Name()] = string(data)
	}
	return out
}

func vf(resource, address string) deviceinfo.Device {
	return deviceinfo.Device{ResourceName: resource, DeviceID: address, PCIAddress: address, PFAddress: "0000:3b:00.0",
		RDMADevice: "mlx5_2"}
}

const content = `{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:3b:00.2","rdma-device":"mlx5_2","pf-pci-address":"0000:3b:00.0"}}`

// TestSync: the files of devices that are there, and of no others of ours, whoever left them.
func TestSync(t *testing.T) {
	dir := t.TempDir()
	theirs := []string{"example.com-vf-pf1-0000:3b:00.7-device.json", "other.com-vf-0000:3b:00.7-device.json",
		"example.com-vf-0000:3b:00.7", "README"}
	for _, name := range append(theirs, "example.com-vf-0000:3b:00.7-device.json") {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	s := deviceinfo.Store{Dir: dir}
	want := map[string]string{"example.com-vf-0000:3b:00.2-device.json": content}
	for _, name := range theirs {
		want[name] = ""
	}
	for _, step := range []struct {
		devices []deviceinfo.Device
		then    func()
	}{
		{[]deviceinfo.Device{vf("example.com/vf", "0000:3b:00.2")}, func() {}},
		{[]deviceinfo.Device{vf("example.com/vf", "0000:3b:00.2")}, func() {
			delete(want, "example.com-vf-0000:3b:00.2-device.json")
			want["example.com-ib-0000:3b:00.2-device.json"] = content
		}},
		{[]deviceinfo.Device{vf("example.com/ib", "0000:3b:00.2")},
			func() { delete(want, "example.com-ib-0000:3b:00.2-device.json") }},
		{nil, func() {}},
	} {
		must.NoError(t, s.Sync(step.devices))
		must.Eq(t, want, files(t, dir), must.Sprintf("with %+v", step.devices))
		step.then()
	}
}

// TestSyncErrors: a file that cannot be written does not keep the others away.
func TestSyncErrors(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.MkdirAll(filepath.Join(dir, "example.com-vf-0000:3b:00.1-device.json"), 0o755))
	s := deviceinfo.Store{Dir: dir}
	if err := s.Sync([]deviceinfo.Device{vf("example.com/vf", "0000:3b:00.1"),
		vf("example.com/vf", "0000:3b:00.2")}); err == nil {
		t.Error("a directory in the place of a file is no error")
	}
	if data, err := os.ReadFile(filepath.Join(dir, "example.com-vf-0000:3b:00.2-device.json")); err != nil ||
		string(data) != content {
		t.Errorf("the other file: %s, %v", data, err)
	}
	missing := deviceinfo.Store{Dir: filepath.Join(dir, "missing")}
	test.ErrorIs(t, missing.Sync([]deviceinfo.Device{vf("a/b", "0000:3b:00.2")}), fs.ErrNotExist,
		test.Sprint("without a directory"))
	test.Error(t, missing.Sync(nil), test.Sprint("what may be left of a device cannot be removed, and that is no"))
}

func ExampleStore() {
	dir, err := os.MkdirTemp("", "devinfo")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	s := deviceinfo.Store{Dir: dir}
	fmt.Println(s.Sync([]deviceinfo.Device{{ResourceName: "example.com/vf", DeviceID: "0000:3b:00.2",
		PCIAddress: "0000:3b:00.2", RDMADevice: "mlx5_2"}}))
	data, err := os.ReadFile(filepath.Join(dir, "example.com-vf-0000:3b:00.2-device.json"))
	fmt.Println(string(data), err)
	// Output:
	// <nil>
	// {"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:3b:00.2","rdma-device":"mlx5_2"}} <nil>
}
