package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/gen/capture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
)

// TestUnpack: a report becomes a root directory, on which the commands say what they say of its host.
func TestUnpack(t *testing.T) {
	root, dir := rdmatest.Root(t, "roce-sriov"), t.TempDir()
	report, host := filepath.Join(dir, "r.tar.gz"), filepath.Join(dir, "host")
	cdigen(t, "report", "--host-root", root, "-o", report).expect(t, exitOK, "written")
	cdigen(t, "unpack", report, "--to", host).expect(t, exitOK, "")
	cdigen(t, "unpack", report, "--to", host).expect(t, exitUsage, "it is there already: name a new directory")
	for _, args := range [][]string{{"list"}, {"topology"}} {
		want := cdigen(t, append(args, "--host-root", root)...)
		if got := cdigen(t, append(args, "--host-root", host)...); got.code != want.code || got.stdout != want.stdout {
			t.Errorf("%s of the unpacked host:\n%s\nof the host:\n%s", args[0], got.stdout, want.stdout)
		}
	}
}

// TestUnpackRefuses: what somebody else made may lead nowhere else, and leaves nothing behind.
func TestUnpackRefuses(t *testing.T) {
	const link = "-- sys/class/infiniband -> "
	for name, tc := range map[string]struct{ file, content, says string }{
		"absolute link":    {capture.MachineFile, link + "/etc --\n", "absolute target"},
		"link that climbs": {capture.MachineFile, link + "../../../etc --\n", "it leads out of the tree"},
		"links that climb together": {
			capture.MachineFile,
			"-- sys/a/b/up -> ../.. --\n-- sys/a/out -> b/up/../.. --\n", "it leads out of the tree",
		},
		"path that climbs": {capture.MachineFile, "-- ../etc/passwd --\nx\n", "is not a relative, clean path"},
		"no tree":          {"README", "hello", "it has no file machine.txtar"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			report, host := filepath.Join(dir, "r.tar.gz"), filepath.Join(dir, "host")
			put(t, report, string(reportWith(t, tc.file, tc.content)), 0o600)
			cdigen(t, "unpack", report, "--to", host).expect(t, exitInvalid, tc.says)
			if _, err := os.Lstat(host); !os.IsNotExist(err) {
				t.Errorf("the directory is there: %v", err)
			}
		})
	}
	no := filepath.Join(t.TempDir(), "no")
	put(t, no, "no archive", 0o600)
	cdigen(t, "unpack", no, "--to", no+".host").expect(t, exitInvalid, "it is no report")
	cdigen(t, "unpack", "/dev/zero", "--to", no+".host").expect(t, exitIO, "not a regular file")
	cdigen(t, "unpack", "--to", "x").expect(t, exitUsage, "want one report")
	cdigen(t, "unpack", "x").expect(t, exitUsage, "--to: want a new directory")
}

func reportWith(t *testing.T, name, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	gz := gzip.NewWriter(&out)
	w := tar.NewWriter(gz)
	err := w.WriteHeader(&tar.Header{Name: "cdi-gen-report/" + name, Mode: 0o600, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write([]byte(content))
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = gz.Close()
	}
	must.NoError(t, err)
	return out.Bytes()
}
