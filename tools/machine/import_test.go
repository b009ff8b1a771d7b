package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

func TestImport(t *testing.T) {
	dir := t.TempDir()
	const function = "sys/devices/pci0000:00/0000:00:03.0/"
	fixture.WriteFiles(t, dir, map[string]string{
		"unreadable.txt":       "/sys/devices/x/types/1: Invalid argument\n",
		function + "vendor":    "0x15b3\n",
		function + "vpd":       "\x82\x01\x00x\x90\x15\x00SN\x02S1VA\x0dA:SMDL=SW_MNG\x78",
		function + "driver":    "-> ../../../bus/pci/drivers/mlx5_core",
		function + "subsystem": "-> ../../../bus/pci",
		function + "iommu":     "-> ../0000:00:00.2/iommu",
	})
	_, got, err := importTar(archiveOf(t, dir))
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
`
	test.Eq(t, want, strings.TrimPrefix(string(archive), "\n"), test.Sprint("import differs"))
}

func TestImportRefusesUnknownError(t *testing.T) {
	dir := t.TempDir()
	fixture.WriteFiles(t, dir, map[string]string{"unreadable.txt": "/sys/x: Level 3 halted\n"})
	_, _, err := importTar(archiveOf(t, dir))
	test.ErrorContains(t, err, "Level 3 halted")
}

// archiveOf is a tar file of a directory, as people make it.
func archiveOf(t *testing.T, dir string) io.Reader {
	t.Helper()
	out, err := exec.Command("tar", "-C", dir, "-cf", "-", ".").Output()
	must.NoError(t, err)
	return bytes.NewReader(out)
}

// TestImportBounded: an archive that unpacks to more than a machine has is refused.
func TestImportBounded(t *testing.T) {
	var bomb bytes.Buffer
	zipped := gzip.NewWriter(&bomb)
	w := tar.NewWriter(zipped)
	must.NoError(t, w.WriteHeader(&tar.Header{Name: "cdi-gen-report/sys/class/x", Mode: 0o644, Size: maxArchive}))
	zeros := make([]byte, 1<<20)
	for range maxArchive / len(zeros) {
		_, err := w.Write(zeros)
		must.NoError(t, err)
	}
	must.NoError(t, errors.Join(w.Close(), zipped.Close()))
	_, _, err := importTar(&bomb)
	test.ErrorContains(t, err, "larger than 256 MiB")
}

// TestImportOfStranger: a link of somebody else's archive that leads elsewhere is dropped, whatever it goes through.
func TestImportOfStranger(t *testing.T) {
	dir := t.TempDir()
	fixture.WriteFiles(t, dir, map[string]string{"sys/a/b/c": "x\n", "sys/absolute": "-> /etc",
		"sys/climbs": "-> ../../etc", "sys/a/b/up": "-> ../..", "sys/a/out": "-> b/up/../.."})
	_, got, err := importTar(archiveOf(t, dir))
	must.NoError(t, err)
	for _, name := range []string{"sys/absolute", "sys/climbs", "sys/a/out"} {
		if e, there := got.Lookup(name); there {
			t.Errorf("%s leads to %s", name, e.Target)
		}
	}
}
