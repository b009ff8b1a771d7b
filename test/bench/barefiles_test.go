package bench

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// bareFiles makes the system calls that a Prepare makes on files, as TestSyscallsOfPrepare and strace
// see them, and nothing else.
type bareFiles struct {
	lock                  string
	claims, metadata, cdi string
	reads, looks          []string
}

func newBareFiles(b *testing.B, n *drivertest.Node, hca int) *bareFiles {
	b.Helper()
	dir := drivertest.TempDir(b)
	f := &bareFiles{lock: filepath.Join(dir, "lock"), claims: filepath.Join(dir, "claims"), metadata: filepath.Join(dir, "metadata"), cdi: filepath.Join(dir, "cdi")}
	for _, path := range []string{f.lock, f.claims, f.metadata, f.cdi} {
		must.NoError(b, syscall.Mkdir(path, 0o755))
	}
	ibdev, verbs := fmt.Sprintf("sys/class/infiniband/mlx5_%d", hca), fmt.Sprintf("uverbs%d", hca)
	for _, file := range []string{"sys/module/ib_core/parameters/netns_mode", ibdev + "/node_guid", "sys/class/infiniband_verbs/" + verbs + "/ibdev", "sys/class/infiniband_verbs/" + verbs + "/dev"} {
		f.reads = append(f.reads, filepath.Join(n.Root, file))
	}
	f.looks = []string{n.Node(verbs), n.Node("rdma_cm")}
	return f
}

// prepare looks at the host, takes a lock, and writes a name, a record, a file for containers
// and a spec.
func (f *bareFiles) prepare(b *testing.B, n int) {
	var buf [8192]byte
	for _, path := range f.reads {
		fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		must.NoError(b, err)
		_, err = syscall.Read(fd, buf[:])
		must.NoError(b, err)
		must.NoError(b, syscall.Close(fd))
	}
	for _, path := range f.looks {
		var st syscall.Stat_t
		must.NoError(b, syscall.Stat(path, &st))
	}
	lock, err := syscall.Open(f.lock, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	must.NoError(b, err)
	must.NoError(b, syscall.Flock(lock, syscall.LOCK_EX|syscall.LOCK_NB))
	for range 2 {
		_, err = syscall.ReadDirent(lock, buf[:])
		must.NoError(b, err)
	}
	name, err := syscall.Open(filepath.Join(f.lock, fmt.Sprint(n)), syscall.O_WRONLY|syscall.O_CREAT|syscall.O_CLOEXEC, 0o640)
	must.NoError(b, err)
	must.NoError(b, syscall.Close(name))
	f.write(b, f.claims, n, buf[:400])
	must.NoError(b, syscall.Close(lock))
	must.NoError(b, syscall.Mkdir(f.ofClaim(n), 0o755))
	f.write(b, f.ofClaim(n), n, buf[:2000])
	f.write(b, f.cdi, n, buf[:900])
}

func (f *bareFiles) ofClaim(n int) string { return filepath.Join(f.metadata, fmt.Sprint(n)) }

func (f *bareFiles) write(b *testing.B, dir string, n int, data []byte) {
	path := filepath.Join(dir, fmt.Sprint(n, ".json"))
	fd, err := syscall.Open(path+".tmp", syscall.O_RDWR|syscall.O_CREAT|syscall.O_EXCL|syscall.O_CLOEXEC, 0o600)
	must.NoError(b, err)
	_, err = syscall.Write(fd, data)
	must.NoError(b, err)
	must.NoError(b, syscall.Fchmod(fd, 0o644))
	must.NoError(b, syscall.Close(fd))
	must.NoError(b, syscall.Rename(path+".tmp", path))
}

// unprepare removes what prepare has written.
func (f *bareFiles) unprepare(b *testing.B, n int) {
	for _, dir := range []string{f.claims, f.ofClaim(n), f.cdi} {
		must.NoError(b, syscall.Unlink(filepath.Join(dir, fmt.Sprint(n, ".json"))))
	}
	must.NoError(b, syscall.Rmdir(f.ofClaim(n)))
	must.NoError(b, syscall.Unlink(filepath.Join(f.lock, fmt.Sprint(n))))
}
