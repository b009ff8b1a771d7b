package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/usable"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmamap"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
)

// Host is the host to check.
type Host struct {
	// Root is the file system of the host: its /proc, /dev, /etc, /lib, /run and /usr.
	Root fs.ReadLinkFS
	// Sys is the host's /sys.
	Sys fs.ReadLinkFS
	// Local reports whether this process runs on the host itself. Only then are its own limits and mounts relevant, and
	// only then can it run programs of the host.
	Local bool
	// Run runs a program and returns its standard output. If the program is not installed, the error is
	// exec.ErrNotFound. Diagnose calls it only if Local is set.
	Run func(ctx context.Context, name string, args ...string) (string, error)
	// SecondOpinion is rdmamap's view of the host. If it is nil, NoSecondOpinion says why.
	SecondOpinion   SecondOpinion
	NoSecondOpinion error
	// Container is a running container of this host to look into: a process ID, or its ID. It is empty for none.
	Container string
	// Containers returns the running containers of this host. It is nil if there is no way to find them.
	Containers func() ([]usable.Running, error)
	// UID is the effective user of this process.
	UID int
	// User has the user's directories, in which rootless runtimes have their configuration. Open leaves it empty.
	User runtimeconf.User
	// Arch is the processor, in the form of runtime.GOARCH.
	Arch string
}

// SecondOpinion is another way to find RDMA devices; see package rdmamap.
type SecondOpinion interface {
	Devices() ([]string, error)
	CharDevices(ibdev string) ([]string, error)
}

// Open returns the host whose root directory is dir, "/" for this host. It reads nothing yet: Diagnose reports missing
// files.
func Open(dir string) *Host {
	abs, err := filepath.Abs(dir)
	h := &Host{
		Root:  hostfs.DirFS(dir),
		Sys:   sysfs.Below(dir),
		Local: err == nil && abs == "/",
		Run:   run,
		UID:   os.Geteuid(),
		Arch:  runtime.GOARCH,
	}
	if m, err := rdmamap.Open(dir); err != nil {
		h.NoSecondOpinion = err
	} else {
		h.SecondOpinion = m
	}
	if h.Local {
		h.Containers = usable.FindContainers
	}
	return h
}

func run(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return string(out), errors.New(text.Foreign(firstLine(string(exit.Stderr))))
	}
	return string(out), err
}
