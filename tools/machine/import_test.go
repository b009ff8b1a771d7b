package main

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/gen/capture/tree"
)

func TestImport(t *testing.T) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	add := func(h tar.Header, body string) {
		h.Size, h.Mode = int64(len(body)), 0o644
		must.NoError(t, w.WriteHeader(&h))
		if _, err := w.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	dir := "./sys/devices/pci0000:00/0000:00:03.0/"
	add(tar.Header{Name: "./unreadable.txt", Typeflag: tar.TypeReg}, "/sys/devices/x/types/1: Invalid argument\n")
	add(tar.Header{Name: "./dev-infiniband.txt", Typeflag: tar.TypeReg}, "total 0\nnetns exclusive copy-on-fork on\n")
	add(tar.Header{Name: dir, Typeflag: tar.TypeDir}, "")
	add(tar.Header{Name: dir + "vendor", Typeflag: tar.TypeReg}, "0x15b3\n")
	add(tar.Header{Name: dir + "vpd", Typeflag: tar.TypeReg}, "\x82\x01\x00x\x90\x15\x00SN\x02S1VA\x0dA:SMDL=SW_MNG\x78")
	add(tar.Header{Name: dir + "driver", Typeflag: tar.TypeSymlink, Linkname: "../../../bus/pci/drivers/mlx5_core"}, "")
	add(tar.Header{Name: dir + "subsystem", Typeflag: tar.TypeSymlink, Linkname: "../../../bus/pci"}, "")
	add(tar.Header{Name: dir + "iommu", Typeflag: tar.TypeSymlink, Linkname: "../0000:00:00.2/iommu"}, "")
	must.NoError(t, w.Close())
	got, err := importTar(&buf)
	must.NoError(t, err)
	archive, err := tree.Format("", got)
	must.NoError(t, err)
	want := `
-- sys/bus/pci/devices/0000:00:03.0 -> ../../../devices/pci0000:00/0000:00:03.0 --
-- sys/bus/pci/drivers/mlx5_core/0000:00:03.0 -> ../../../../devices/pci0000:00/0000:00:03.0 --
-- sys/devices/pci0000:00/0000:00:03.0/driver -> ../../../bus/pci/drivers/mlx5_core --
-- sys/devices/pci0000:00/0000:00:03.0/subsystem -> ../../../bus/pci --
-- sys/devices/pci0000:00/0000:00:03.0/vendor --
0x15b3
-- sys/devices/pci0000:00/0000:00:03.0/vpd !hex --
820000900e0056410b534d444c3d53575f4d4e4778
-- sys/devices/x/types/1 !EINVAL --
-- sys/module/ib_core/parameters/netns_mode --
N
`
	test.Eq(t, want, strings.TrimPrefix(string(archive), "\n"), test.Sprint("import differs"))
}

func TestImportRefusesUnknownError(t *testing.T) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	body := "/sys/x: Level 3 halted\n"
	must.NoError(t, w.WriteHeader(&tar.Header{Name: "unreadable.txt", Size: int64(len(body)), Mode: 0o644}))
	if _, err := w.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	must.NoError(t, w.Close())
	if _, err := importTar(&buf); err == nil || !strings.Contains(err.Error(), "Level 3 halted") {
		t.Errorf("Import gives %v, want an error that names the line", err)
	}
}
