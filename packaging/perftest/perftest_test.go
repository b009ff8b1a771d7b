package perftest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	dir := filepath.Join(t.TempDir(), "root")
	output(t, "./unpack.sh", arch, dir)
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
		port + "link_layer":        "Ethernet\n",
		port + "state":             "4: ACTIVE\n",
		port + "gid_attrs/types/1": "RoCE v2\n",
		port + "gids/1":            "0000:0000:0000:0000:0000:ffff:0a4d:0101\n",
		"proc/uptime":              "100.25 0.00\n",
		"proc/net/tcp":             "sl\n",
		"dev/null":                 "",
		"script.sh":                string(text),
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
	test.StrContains(t, said, "tool exit 1\n", test.Sprint("the script does not say"))
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
	list, err := os.ReadFile("packages.txt")
	must.NoError(t, err)
	form := regexp.MustCompile(`(?m)^(amd64|arm64) (\S+) \S+ [0-9a-f]{64} pool/\S+\.deb \S.*$`)
	names := map[string][]string{}
	for _, m := range form.FindAllStringSubmatch(string(list), -1) {
		names[m[1]] = append(names[m[1]], m[2])
	}
	test.SliceLen(t, 14, names["amd64"], test.Sprint("packages for amd64"))
	test.Eq(t, names["amd64"], names["arm64"])
	out, err := exec.CommandContext(t.Context(), "./unpack.sh", "riscv64", t.TempDir()).CombinedOutput()
	test.Error(t, err)
	test.StrContains(t, string(out), "has no packages for it")
}

// TestSource: what has another checksum is not taken, neither from the cache nor from a mirror. The next mirror is
// asked then.
func TestSource(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.NoError(t, os.WriteFile(path, []byte(text), 0o755))
		return path
	}
	write("p/DEBIAN/control", "Package: p\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.com>\nDescription: p\n")
	write("p/usr/bin/ib_write_bw", "wanted")
	write("p/usr/bin/ib_read_bw", "not wanted")
	deb := write("good/p.deb", "")
	output(t, "dpkg-deb", "--root-owner-group", "--build", filepath.Join(dir, "p"), deb)
	sum := strings.Fields(output(t, "sha256sum", deb))[0]
	write("bad/p.deb", "bar")
	unpack := output(t, "cat", "unpack.sh")
	write("unpack.sh", unpack)
	write("packages.txt", "amd64 p 1 "+sum+" p.deb MIT\n")
	run := func(mirrors string) (string, string, error) {
		to := filepath.Join(t.TempDir(), "root")
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "unpack.sh"), "amd64", to)
		cmd.Env = append(os.Environ(), "DRA_RDMA_CACHE="+filepath.Join(dir, "cache"), "DRA_RDMA_DEBIAN_MIRROR="+mirrors)
		says, err := cmd.CombinedOutput()
		return to, string(says), err
	}
	at := func(name string) string { return "file://" + filepath.Join(dir, name) }
	_, says, err := run(at("bad"))
	test.Error(t, err)
	test.StrContains(t, says, "the checksum is not "+sum)
	test.StrContains(t, says, "get p 1 for amd64: no mirror has it")
	cached := filepath.Join("cache/debian", sum+".deb")
	for _, mirror := range []string{at("none") + " " + at("bad") + " " + at("good/"), at("none"), at("good")} {
		to, says, err := run(mirror) // the second one finds the package in the cache
		must.NoError(t, err, must.Sprint(says))
		test.Eq(t, "wanted", output(t, "cat", filepath.Join(to, "usr/bin/ib_write_bw")))
		test.FileNotExists(t, filepath.Join(to, "usr/bin/ib_read_bw"))
		if mirror == at("none") {
			write(cached, "bar") // the third one does not take it from there
		}
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
