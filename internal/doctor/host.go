package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/rdmamap"
	"github.com/rdma-dev/dra-driver-rdma/internal/sysfs"
)

// Host is what is looked at.
type Host struct {
	// Root is the file system of the host: its /proc, /dev, /etc, /run and /usr.
	Root fs.ReadLinkFS
	// Sys is the host's /sys.
	Sys fs.ReadLinkFS
	// Local says that this process runs on the host itself, so that its own limits
	// and mounts say something, and programs of the host can be run.
	Local bool
	// Run runs a program and returns its standard output. A program that is not
	// installed is an error with exec.ErrNotFound. It is called only if Local.
	Run func(ctx context.Context, name string, args ...string) (string, error)
	// SecondOpinion is rdmamap's view of the host, nil if there is none, and
	// NoSecondOpinion the reason.
	SecondOpinion   SecondOpinion
	NoSecondOpinion error
	// UID is the user that looks.
	UID int
	// Arch is the processor, as runtime.GOARCH has it.
	Arch string
}

// SecondOpinion is another way to find RDMA devices; see package rdmamap.
type SecondOpinion interface {
	Devices() ([]string, error)
	CharDevices(ibdev string) ([]string, error)
}

// Open returns the host whose root directory is dir, "/" for this one. It opens
// nothing yet: what is not there is found by Diagnose.
func Open(dir string) *Host {
	root := hostfs.DirFS(dir)
	h := &Host{
		Root:  root,
		Sys:   sysfs.DirFS(filepath.Join(dir, "sys")),
		Local: isRoot(dir),
		Run:   run,
		UID:   os.Geteuid(),
		Arch:  runtime.GOARCH,
	}
	if m, err := rdmamap.Open(dir); err != nil {
		h.NoSecondOpinion = err
	} else {
		h.SecondOpinion = m
	}
	return h
}

// isRoot reports whether dir is this system's root directory.
func isRoot(dir string) bool {
	abs, err := filepath.Abs(dir)
	return err == nil && abs == "/"
}

func run(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return string(out), errors.New(firstLine(string(exit.Stderr)))
	}
	return string(out), err
}
