package usable

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Errors of files that nothing is read of.
var (
	errRemote     = errors.New("it is on FUSE, a network file system or an overlay of its own, which may not answer")
	errNotRegular = errors.New("it is no regular file")
	errTooLarge   = errors.New("it is too large")
	errTooMany    = errors.New("too many files")
	errTooMuch    = errors.New("its files are larger than those of rdma-core and glibc")
)

// Bounds of what is read of a container.
const (
	maxOpens   = 2000
	maxBytes   = 32 << 20 // five providers have 1 MiB of tables
	maxLibrary = 16 << 20 // libraries of rdma-core have less than 1 MiB, glibc 2 MiB
	maxCache   = 4 << 20  // a cache of 10,000 libraries has 1 MiB
	maxLinks   = 40       // as in Linux
)

// Root is the root file system of a container. Its links lead nowhere else: the kernel resolves them in it. Nothing is
// opened but regular files and directories, and nothing on a file system that may not answer.
type Root struct {
	fd     int
	remote []string // mount points in the root with such file systems, with a leading slash
	opens  int      // how many files may still be opened
	left   int64    // how many bytes of files may still be read
}

// OpenRoot opens the root file system at a path in the mount namespace of a process: "/" for that of a running
// container, and before the runtime has changed the root, its path on the host. The caller must close the result.
func OpenRoot(pid int, path string) (*Root, error) {
	proc := "/proc/" + strconv.Itoa(pid)
	text, err := readFile(proc+"/mountinfo", maxMountinfo)
	if err != nil {
		return nil, wrap("read the container's mounts", err)
	}
	mounts := string(text)
	host := mounts
	if path == "/" { // the container has its own mounts only, and an overlay's layers are on the host
		if text, err = readFile("/proc/self/mountinfo", maxMountinfo); err != nil {
			return nil, wrap("read the host's mounts", err)
		}
		host = string(text)
	}
	far := remotePoints(mounts, host, path)
	if isWithinAny(path, far) {
		return nil, wrap("open the container's root", errRemote)
	}
	top, err := unix.Open(proc+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, wrap("open the container's root", err)
	}
	defer unix.Close(top)
	fd, err := openIn(top, path, unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, wrap("open the container's root", err)
	}
	r := &Root{fd: fd, opens: maxOpens, left: maxBytes}
	at := "" // the prefix of mount points in the root
	if path != "/" && len(far) > 0 {
		if at, err = readlink(fd); err == nil && at != path { // the path had links
			far = remotePoints(mounts, host, at)
		}
		if err == nil && isWithinAny(at, far) {
			err = errRemote
		}
		if err != nil {
			r.Close()
			return nil, wrap("open the container's root", err)
		}
	}
	for _, point := range far {
		if rest, ok := strings.CutPrefix(point, at+"/"); ok {
			r.remote = append(r.remote, "/"+rest)
		}
	}
	return r, nil
}

// Close closes the root.
func (r *Root) Close() { unix.Close(r.fd) }

// openIn opens a path in a directory as the root, without access to its content.
func openIn(dir int, name string, flags, resolve uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | resolve}
	for range 8 { // the kernel gives up on ".." while somebody renames directories
		if fd, err = unix.Openat2(dir, name, &how); err != unix.EAGAIN && err != unix.EINTR {
			break
		}
	}
	return fd, err
}

// path opens a file without access to its content. It follows links.
func (r *Root) path(name string) (int, error) {
	if r.opens--; r.opens < 0 {
		return -1, errTooMany
	}
	if len(r.remote) == 0 {
		return openIn(r.fd, name, 0, 0)
	}
	name, err := r.resolve(name)
	if err != nil {
		return -1, err
	}
	return openIn(r.fd, name, 0, unix.RESOLVE_NO_SYMLINKS)
}

// resolve follows the links of a path without a step onto a file system that may not answer.
func (r *Root) resolve(name string) (string, error) {
	done, rest := "", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = done[:max(0, strings.LastIndexByte(done, '/'))]
			continue
		}
		next := done + "/" + part
		if isWithinAny(next, r.remote) {
			return "", errRemote
		}
		target, err := r.linkAt(next)
		if err != nil {
			return "", err
		}
		if target == "" {
			done = next
			continue
		}
		if links++; links > maxLinks || len(rest) > unix.PathMax {
			return "", unix.ELOOP
		}
		if strings.HasPrefix(target, "/") {
			done = ""
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	if done == "" {
		return "/", nil
	}
	return done, nil
}

// linkAt returns the target of a link, "" for another file.
func (r *Root) linkAt(name string) (string, error) {
	if r.opens--; r.opens < 0 {
		return "", errTooMany
	}
	fd, err := openIn(r.fd, name, unix.O_NOFOLLOW, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", err
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	return string(buf[:max(n, 0)]), err
}

// exists reports whether a path has a file. An error other than that of a missing file counts as one.
func (r *Root) exists(name string) bool {
	fd, err := r.path(name)
	if err == nil {
		unix.Close(fd)
	}
	return !isMissing(err)
}

func isMissing(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) }

// reopen opens a file for reading after a look at it: opening a device has effects, and a FIFO blocks.
func (r *Root) reopen(name string, kind uint32, limit int64) (int, error) {
	fd, err := r.path(name)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	switch err := unix.Fstat(fd, &st); {
	case err != nil:
		return -1, err
	case st.Mode&unix.S_IFMT != kind:
		return -1, errNotRegular
	case kind == unix.S_IFREG && st.Size > limit:
		return -1, errTooLarge
	}
	return unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
}

// file is an open regular file. It is no os.File, because that costs system calls.
type file struct {
	fd   int
	left *int64 // how many bytes may still be read, nil for any number
}

// file returns an open file whose reads count.
func (r *Root) file(fd int) file { return file{fd, &r.left} }

// ReadAt implements io.ReaderAt.
func (f file) ReadAt(b []byte, off int64) (n int, err error) {
	if f.left != nil {
		defer func() { *f.left -= int64(n) }()
		if *f.left <= 0 {
			return 0, errTooMuch
		}
	}
	for n < len(b) {
		m, err := unix.Pread(f.fd, b[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, err
		case m == 0:
			return n, io.EOF
		}
		n += max(m, 0)
	}
	return n, nil
}

// read reads a regular file of at most limit bytes.
func (r *Root) read(name string, limit int64) ([]byte, error) {
	fd, err := r.reopen(name, unix.S_IFREG, limit)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readAll(r.file(fd), limit)
}

// entries lists the names of a directory with at most limit.
func (r *Root) entries(name string, limit int) ([]string, error) {
	fd, err := r.reopen(name, unix.S_IFDIR, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var names []string
	buf := make([]byte, 16<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n == 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
		if len(names) > limit {
			return nil, errTooMany
		}
	}
}

func readlink(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf)
	return string(buf[:max(n, 0)]), err
}

// readFile reads a file of this system, such as one of /proc, whose size is not known before.
func readFile(path string, limit int64) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readAll(file{fd: fd}, limit)
}

func readAll(f file, limit int64) ([]byte, error) {
	data := make([]byte, 0, 8<<10)
	for {
		n, err := f.ReadAt(data[len(data):cap(data)], int64(len(data)))
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > limit:
			return nil, errTooLarge
		case err == io.EOF:
			return data, nil
		case err != nil:
			return nil, err
		}
		data = append(data, make([]byte, len(data))...)[:len(data)]
	}
}

// wrap prefixes err with what was tried. It returns nil for nil.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
