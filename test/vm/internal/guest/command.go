package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/job"
)

// environment is what the command finds beside what the caller adds. GOGC spends memory for processor time, which is
// emulated here.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/root", "LANG=C.UTF-8", "DRA_RDMA_VM=1", "GOGC=400",
}

// command runs the command with its output on the virtio-serial ports.
func (b *boot) command() error {
	// exec looks for the program in our own PATH.
	for _, v := range append(environment, b.spec.Env...) {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set the environment: %w", err)
		}
	}
	dir := b.spec.Dir
	if dir == "" {
		dir = "/root"
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("%w (is it in a shared directory?)", err)
	}
	files, err := openPorts()
	if err != nil {
		return err
	}
	program, err := exec.LookPath(b.spec.Argv[0])
	if err != nil {
		fmt.Fprintln(files[2], "vm:", err)
		b.result.Exit = notFound(err)
		return nil
	}
	attr := &os.ProcAttr{Env: os.Environ(), Files: files, Sys: &unix.SysProcAttr{Setsid: true}}
	p, err := os.StartProcess(program, b.spec.Argv, attr)
	if err != nil {
		fmt.Fprintln(files[2], "vm:", err)
		b.result.Exit = notFound(err)
		return nil
	}
	status, err := reap(p.Pid)
	b.result.Exit = status.ExitStatus()
	if status.Signaled() {
		b.result.Exit = 128 + int(status.Signal())
	}
	if b.result.Exit != 0 {
		err = errors.Join(err, showBlocked())
	}
	return err
}

// showBlocked has the kernel print the tasks that are blocked on the console, for those who ask why a command failed.
func showBlocked() error {
	for _, key := range []string{"9", "w"} { // all levels, tasks
		if err := os.WriteFile("/proc/sysrq-trigger", []byte(key), 0); err != nil {
			return fmt.Errorf("have the kernel show blocked tasks: %w", err)
		}
	}
	return nil
}

// notFound is the exit status of a shell for a command that cannot be started.
func notFound(err error) int {
	if errors.Is(err, fs.ErrPermission) {
		return 126
	}
	return 127
}

// openPorts opens /dev/null and the virtio-serial ports for standard output and error.
func openPorts() ([]*os.File, error) {
	names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		paths[strings.TrimSpace(string(data))] = filepath.Join("/dev", filepath.Base(filepath.Dir(name)))
	}
	var files []*os.File
	for _, path := range []string{os.DevNull, paths[job.StdoutPort], paths[job.StderrPort]} {
		// Not os.OpenFile: it would make the ports non-blocking, which no program
		// expects of its output.
		fd, err := unix.Open(path, unix.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("open port %q of %v: %w", path, paths, err)
		}
		files = append(files, os.NewFile(uintptr(fd), path))
	}
	return files, nil
}
