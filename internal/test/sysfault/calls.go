package sysfault

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Call is a system call that is about to happen.
type Call struct {
	// Name is that of the call, without the variants of it: openat, rename.
	Name string
	// Path is what it is about, To the new name of a rename.
	Path, To string
	// Write says that an open is for writing.
	Write bool
	// PID is the process, or one of its threads.
	PID int
}

// Changes reports whether the call changes files or directories.
func (c Call) Changes() bool {
	switch c.Name {
	case "openat":
		return c.Write
	case "write", "mkdir", "mknod", "unlink", "rename", "link", "symlink", "chmod", "truncate", "copy":
		return true
	}
	return false
}

func (c Call) String() string {
	text := c.Name + " " + c.Path
	if c.Write {
		text += " (write)"
	}
	if c.To != "" {
		text += " to " + c.To
	}
	return text
}

// kind says where a call has its paths.
type kind struct {
	name       string
	fd         int // index of the argument that is a file descriptor, -1 for none
	path       int // index of the path, -1 for none
	toFD, toAt int // the same of the second path, -1 for none
	flags      int // index of the flags of an open, -1 for none
}

// watched are the calls on files that a Go program makes, and on sockets of datagrams.
var watched = map[int32]kind{
	unix.SYS_OPENAT:            {"openat", 0, 1, -1, -1, 2},
	unix.SYS_READ:              {"read", 0, -1, -1, -1, -1},
	unix.SYS_PREAD64:           {"read", 0, -1, -1, -1, -1},
	unix.SYS_WRITE:             {"write", 0, -1, -1, -1, -1},
	unix.SYS_PWRITE64:          {"write", 0, -1, -1, -1, -1},
	unix.SYS_GETDENTS64:        {"getdents", 0, -1, -1, -1, -1},
	unix.SYS_FSTAT:             {"fstat", 0, -1, -1, -1, -1},
	unix.SYS_NEWFSTATAT:        {"stat", 0, 1, -1, -1, -1},
	unix.SYS_STATX:             {"stat", 0, 1, -1, -1, -1},
	unix.SYS_STATFS:            {"statfs", -1, 0, -1, -1, -1},
	unix.SYS_FACCESSAT:         {"access", 0, 1, -1, -1, -1},
	unix.SYS_FACCESSAT2:        {"access", 0, 1, -1, -1, -1},
	unix.SYS_READLINKAT:        {"readlink", 0, 1, -1, -1, -1},
	unix.SYS_MKDIRAT:           {"mkdir", 0, 1, -1, -1, -1},
	unix.SYS_MKNODAT:           {"mknod", 0, 1, -1, -1, -1},
	unix.SYS_UNLINKAT:          {"unlink", 0, 1, -1, -1, -1},
	unix.SYS_RENAMEAT:          {"rename", 0, 1, 2, 3, -1},
	unix.SYS_RENAMEAT2:         {"rename", 0, 1, 2, 3, -1},
	unix.SYS_LINKAT:            {"link", 0, 1, 2, 3, -1},
	unix.SYS_SYMLINKAT:         {"symlink", 1, 2, -1, -1, -1},
	unix.SYS_FCHMOD:            {"chmod", 0, -1, -1, -1, -1},
	unix.SYS_FCHMODAT:          {"chmod", 0, 1, -1, -1, -1},
	unix.SYS_FTRUNCATE:         {"truncate", 0, -1, -1, -1, -1},
	unix.SYS_FSYNC:             {"fsync", 0, -1, -1, -1, -1},
	unix.SYS_FLOCK:             {"flock", 0, -1, -1, -1, -1},
	unix.SYS_INOTIFY_ADD_WATCH: {"watch", -1, 1, -1, -1, -1},
	unix.SYS_COPY_FILE_RANGE:   {"copy", 2, -1, -1, -1, -1},
	unix.SYS_SENDFILE:          {"copy", 0, -1, -1, -1, -1},
	unix.SYS_SENDTO:            {"send", 0, -1, -1, -1, -1}, // requests to netlink; streams are written to
}

// describe reads from a stopped thread what its call is about.
func describe(tid uint32, data *notifData) (Call, error) {
	k, ok := watched[data.nr]
	if !ok {
		return Call{}, fmt.Errorf("system call %d is not watched", data.nr)
	}
	call := Call{Name: k.name, PID: int(tid)}
	var err error
	if call.Path, err = where(tid, data, k.fd, k.path); err != nil {
		return call, err
	}
	if k.toAt >= 0 {
		call.To, err = where(tid, data, k.toFD, k.toAt)
	}
	if k.flags >= 0 {
		call.Write = data.args[k.flags]&unix.O_ACCMODE != unix.O_RDONLY
	}
	return call, err
}

// where is the path that a call names by a descriptor, a string, or both.
func where(tid uint32, data *notifData, fd, path int) (string, error) {
	name := ""
	if path >= 0 {
		var err error
		if name, err = stringAt(tid, data.args[path]); err != nil || filepath.IsAbs(name) {
			return name, err
		}
	}
	link := fmt.Sprintf("/proc/%d/cwd", tid)
	if fd >= 0 && int32(data.args[fd]) != unix.AT_FDCWD {
		link = fmt.Sprintf("/proc/%d/fd/%d", tid, int32(data.args[fd]))
	}
	dir, err := os.Readlink(link)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil // a descriptor that is not open: the call fails by itself
	}
	return filepath.Join(dir, name), err
}

// stringAt reads a string of the program. It may end just before memory that is none of the
// program's, so the next page is asked for as a part of its own.
func stringAt(tid uint32, address uint64) (string, error) {
	buf := make([]byte, unix.PathMax)
	first := min(uintptr(len(buf)), uintptr(os.Getpagesize())-uintptr(address)%uintptr(os.Getpagesize()))
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	remote := []unix.RemoteIovec{{Base: uintptr(address), Len: int(first)}}
	if rest := len(buf) - int(first); rest > 0 {
		remote = append(remote, unix.RemoteIovec{Base: uintptr(address) + first, Len: rest})
	}
	n, err := unix.ProcessVMReadv(int(tid), local, remote, 0)
	if err != nil {
		return "", fmt.Errorf("read a path of thread %d: %w", tid, err)
	}
	end := bytes.IndexByte(buf[:n], 0)
	if end < 0 {
		return "", fmt.Errorf("read a path of thread %d: no end of string", tid)
	}
	return string(buf[:end]), nil
}
