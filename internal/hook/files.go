package hook

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// Files reads and writes files of /proc and of cgroup file systems. Errors are, or wrap, those of the system calls.
type Files interface {
	Read(path string) (string, error)
	// Write writes to an existing file with one system call.
	Write(path, text string) error
}

// HostFiles are the files of the host. It makes the system calls itself, because os.Open would start the Go runtime's
// poller.
type HostFiles struct{}

// maxFile bounds the size of a file. The longest is /proc/self/mountinfo: a hundred bytes for each mount of the host.
const maxFile = 16 << 20

// Read reads a whole file.
func (HostFiles) Read(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	buf := make([]byte, 0, 4096)
	for {
		if len(buf) == cap(buf) {
			if len(buf) >= maxFile {
				return "", errors.New("it has more than " + Size(maxFile).String())
			}
			buf = append(make([]byte, 0, 4*cap(buf)), buf...)
		}
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		if err != nil {
			return "", err
		}
		if n == 0 {
			return string(buf), nil
		}
		buf = buf[:len(buf)+n]
	}
}

// Write writes to an existing file.
func (HostFiles) Write(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_TRUNC|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := unix.Write(fd, []byte(text))
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	return err
}
