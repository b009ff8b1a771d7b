package perftest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// script is what kubectl rdma test runs in the image.
const script = "../../internal/inspect/traffic/script.sh"

// unpacked returns a directory with the image's files.
func unpacked(t *testing.T, arch string) string {
	t.Helper()
	s, err := DefaultSource()
	must.NoError(t, err)
	dir := t.TempDir()
	must.NoError(t, Unpack(t.Context(), s, arch, dir))
	return dir
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	must.NoError(t, err, must.Sprintf("%s %q: %v\n%s", name, args, err, out))
	return string(out)
}

// TestScript: the script of kubectl rdma test runs in the image as far as it can without an RDMA device: it reads the
// counters and the port's state, and perftest begins. No program and no library is missing.
func TestScript(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("chroot needs root")
	}
	dir := unpacked(t, runtime.GOARCH)
	const port = "sys/class/infiniband/rxe0/ports/1/"
	text, err := os.ReadFile(script)
	must.NoError(t, err)
	for name, content := range map[string]string{
		port + "link_layer":            "Ethernet\n",
		port + "state":                 "4: ACTIVE\n",
		port + "gid_attrs/types/1":     "RoCE v2\n",
		port + "gids/1":                "0000:0000:0000:0000:0000:ffff:0a4d:0101\n",
		port + "hw_counters/sent_pkts": "7\n",
		port + "hw_counters/rcvd_pkts": "8\n",
		"proc/uptime":                  "100.25 0.00\n",
		"proc/net/tcp":                 "sl\n",
		"dev/null":                     "",
		"script.sh":                    string(text),
	} {
		must.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	run := func() string {
		return output(t, "chroot", dir, "/bin/sh", "-c", "PATH=/usr/bin exec sh /script.sh server rxe0 1 18515 3")
	}
	said := run()
	test.StrNotContains(t, said, "down", test.Sprint("the script says that the active port is down"))
	must.NoError(t, os.WriteFile(filepath.Join(dir, port, "state"), []byte("1: DOWN\n"), 0o644))
	test.StrContains(t, run(), "\ndown\n", test.Sprint("the script does not say that the port is down"))
	for _, want := range []string{"unit packet\n", "at 100.25 7 8\n", "tool exit 1\n"} {
		test.StrContains(t, said, want, test.Sprint("the script does not say"))
	}
	for _, no := range []string{"not found", "No such file", "cannot open shared object"} {
		test.StrNotContains(t, said, no, test.Sprint("the script"))
	}
	if t.Failed() {
		t.Log(said)
	}
}

// TestARM64: perftest for arm64 finds all its libraries. QEMU emulates the processor.
func TestARM64(t *testing.T) {
	qemu, err := exec.LookPath("qemu-aarch64-static")
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatalf("%v: install the package qemu-user-static", err)
	case err != nil:
		t.Skipf("%v: install the package qemu-user-static to run this test", err)
	}
	dir := unpacked(t, "arm64")
	// Its exit status is 1.
	got, err := exec.CommandContext(t.Context(), qemu, "-L", dir, filepath.Join(dir, "usr/bin/ib_write_bw"),
		"--version").CombinedOutput()
	test.StrHasPrefix(t, "Version: ", string(got), test.Sprintf("ib_write_bw --version says %q, %v", got, err))
}

// TestPackages: each architecture has the same packages, each with a checksum and a license.
func TestPackages(t *testing.T) {
	amd, arm := Packages("amd64"), Packages("arm64")
	if len(amd) != 14 || len(arm) != len(amd) || len(Packages("riscv64")) != 0 {
		t.Fatalf("%d packages for amd64, and %d for arm64", len(amd), len(arm))
	}
	for i := range amd {
		if amd[i].Name != arm[i].Name || len(amd[i].SHA256) != 64 || amd[i].License == "" {
			t.Errorf("%+v and %+v", amd[i], arm[i])
		}
	}
}

// TestSource: what has another checksum is not taken, neither from the cache nor from a mirror, and the next mirror is
// asked.
func TestSource(t *testing.T) {
	p := Package{Arch: "amd64", Name: "p", Version: "1", Path: "pool/p.deb",
		SHA256: "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"} // of foo
	serve := func(text string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/debian/pool/p.deb" {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = w.Write([]byte(text))
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	s := Source{Cache: filepath.Join(t.TempDir(), "cache"), Mirrors: []string{serve("bar") + "/debian/"}}
	if _, err := s.get(t.Context(), p); err == nil || !strings.Contains(err.Error(), "get p 1 for amd64: download http") ||
		!strings.Contains(err.Error(), "the checksum is not 2c26") {
		t.Errorf("a wrong package: %v", err)
	}
	s.Mirrors = append(s.Mirrors, serve("foo")+"/none", serve("foo")+"/debian")
	for _, from := range []string{"the mirror", "the cache"} {
		if data, err := s.get(t.Context(), p); err != nil || string(data) != "foo" {
			t.Errorf("from %s: %q, %v", from, data, err)
		}
		s.Mirrors = nil
	}
	must.NoError(t, os.WriteFile(filepath.Join(s.Cache, p.SHA256+".deb"), []byte("bar"), 0o644))
	if data, err := s.get(t.Context(), p); err == nil {
		t.Errorf("a changed cache gives %q", data)
	}
}

// TestMember: what is no package is an error.
func TestMember(t *testing.T) {
	for _, deb := range []string{
		"", "PK", "!<arch>\n", "!<arch>\n" + strings.Repeat(" ", 60),
		"!<arch>\ndata.tar.xz     0           0     0     644     99999     `\nabc",
		"!<arch>\ndata.tar.xz     0           0     0     644     -1        `\nabc",
	} {
		if data, err := member([]byte(deb), "data.tar.xz"); err == nil {
			t.Errorf("%q has %q", deb, data)
		}
	}
	if data, err := member([]byte("!<arch>\nodd             0           0     0     644     3         `\nabc\n"+
		"data.tar.xz/    0           0     0     644     2         `\nxy"), "data.tar.xz"); string(data) != "xy" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestPinRefusesUnsigned: a mirror that Debian has not signed pins nothing.
func TestPinRefusesUnsigned(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dists", "bookworm")
	must.NoError(t, os.MkdirAll(dir, 0o755))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "InRelease"), []byte("Origin: Debian\nSHA256:\n"), 0o644))
	cmd := exec.CommandContext(t.Context(), "sh", "pin.sh")
	cmd.Env = append(os.Environ(), "DRA_RDMA_DEBIAN_MIRROR=file://"+filepath.Dir(filepath.Dir(dir)))
	if out, err := cmd.Output(); err == nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
