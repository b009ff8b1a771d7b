package rdmaimage

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// unpack downloads and unpacks packages of a suite of Debian, without what they depend on. Nothing is installed, and
// the lists and the configuration of this machine's apt stay as they are; only its proxies count. What containers do
// not read is left out.
const unpack = `set -eu
umask 022
suite=$1 arch=$2 to=$3
shift 3
apt=$to.apt
rm -rf "$to" "$apt"
mkdir -p "$to/usr/bin" "$to/usr/lib" "$to/usr/lib64" "$to/etc" "$apt/state/lists/partial" "$apt/cache/archives/partial"
: >"$apt/status"
echo "deb [arch=$arch signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" \
	>"$apt/sources.list"
cd "$apt"
for action in update "download $*"; do
	apt-get -qq -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o APT::Sandbox::User=root \
		-o Acquire::Retries=5 -o Acquire::Languages=none -o Dir::Etc::SourceList="$apt/sources.list" \
		-o Dir::Etc::SourceParts=/dev/null -o Dir::State="$apt/state" -o Dir::State::Lists="$apt/state/lists" \
		-o Dir::State::Status="$apt/status" -o Dir::Cache="$apt/cache" $action
done
ln -s usr/lib "$to/lib" # as base-files has it
ln -s usr/lib64 "$to/lib64"
for package in *.deb; do
	dpkg-deb --fsys-tarfile "$package" |
		tar -x --no-same-owner --keep-directory-symlink --exclude ./usr/share --exclude '*/gconv' -C "$to"
done
rm -rf "$apt"
`

// Packages returns a directory with the files of rdma-core and of the C library, as the packages of a suite of Debian
// have them: "bookworm", "trixie". The caller must not change the files.
func Packages(t testing.TB, suite string) string {
	t.Helper()
	rdmacm := "librdmacm1t64"
	if suite == "bookworm" {
		rdmacm = "librdmacm1"
	}
	return Unpack(t, suite,
		"libc6", "libibverbs1", "ibverbs-providers", "ibverbs-utils", "libnl-3-200", "libnl-route-3-200", rdmacm)
}

// Unpack returns a directory with the files of packages of a suite of Debian, but for /usr/share. They are downloaded
// once, into the user's cache. The caller must not change the files.
func Unpack(t testing.TB, suite string, packages ...string) string {
	t.Helper()
	needs.Root(t, "files of containers belong to root")
	for _, program := range []string{"apt-get", "dpkg-deb", "tar"} {
		needs.Program(t, program, "Debian and Ubuntu have it")
	}
	cache, err := os.UserCacheDir()
	must.NoError(t, err)
	recipe := sha256.Sum256(fmt.Append(nil, unpack, runtime.GOARCH, packages))
	cache = filepath.Join(cache, "dra-driver-rdma", fmt.Sprintf("packages-%x", recipe[:6]))
	must.NoError(t, os.MkdirAll(cache, 0o755))
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	must.NoError(t, err)
	defer lock.Close()
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX) // other tests download the same
	}
	must.NoError(t, err)
	dir := filepath.Join(cache, suite)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	args := append([]string{"-c", unpack, "sh", suite, runtime.GOARCH, dir + ".new"}, packages...)
	out, err := exec.Command("sh", args...).CombinedOutput()
	if err == nil {
		err = os.Rename(dir+".new", dir)
	}
	must.NoError(t, err, must.Sprintf("unpack Debian's packages of %s: %v\n%s", suite, err, out))
	return dir
}

// CopyPackages copies the files that Packages returns to a root file system.
func CopyPackages(t testing.TB, suite, root string) {
	t.Helper()
	out, err := exec.Command("cp", "-a", Packages(t, suite)+"/.", root).CombinedOutput()
	if err == nil {
		err = os.Chmod(root, 0o755) // for the container's user
	}
	must.NoError(t, err, must.Sprintf("copy Debian's packages: %v: %s", err, out))
}
