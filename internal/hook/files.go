package hook

import (
	"errors"
	"io"
	"os"

	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// Files reads and writes files of /proc and of cgroup file systems. Errors are, or wrap, those of the system calls.
type Files interface {
	Read(path string) (string, error)
	// Write writes to an existing file with one system call.
	Write(path, text string) error
}

// HostFiles are the files of the host.
type HostFiles struct{}

// maxFile bounds the size of a file. The longest is /proc/self/mountinfo: a hundred bytes for each mount of the host.
const maxFile = 16 << 20

// Read reads a whole file.
func (HostFiles) Read(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", cause(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(text) > maxFile {
		return "", errors.New("it has more than " + args.Size(maxFile).String())
	}
	return string(text), cause(err)
}

// Write writes to an existing file.
func (HostFiles) Write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return cause(err)
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return cause(err)
}
