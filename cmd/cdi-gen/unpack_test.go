package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/archive"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture"
)

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
			packed, err := archive.TarGz("cdi-gen-report", []archive.File{{Name: tc.file, Data: []byte(tc.content)}})
			must.NoError(t, err)
			put(t, report, string(packed), 0o600)
			cdigen(t, "unpack", report, "--to", host).expect(t, exitInvalid, tc.says)
			if _, err := os.Lstat(host); !os.IsNotExist(err) {
				t.Errorf("the directory is there: %v", err)
			}
		})
	}
}
