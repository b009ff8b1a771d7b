// Package guest is process 1 of the virtual machine: it mounts the root file system and
// the host's directories, loads modules, makes the RDMA devices, runs one command,
// writes down how that went, and ends the machine.
package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/job"
)

// jobDir is where the job directory is mounted.
const jobDir = "/run/vm/job"

// boot is one life of the machine.
type boot struct {
	modules *modules
	spec    job.Spec
	result  job.Result
}

// Main never returns: where process 1 ends, the kernel panics.
func Main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: this is process 1 of a virtual machine and does nothing anywhere else")
		os.Exit(2)
	}
	// The console is where the kernel speaks; whoever looks there looks for this.
	b := &boot{}
	if err := b.run(); err != nil {
		fmt.Println("init:", err)
		b.result.Error, b.result.Exit = err.Error(), exitFailed
	}
	if err := job.WriteResult(jobDir, b.result); err != nil {
		fmt.Println("init:", err)
	}
	powerOff()
}

// exitFailed is the result where the command was not run at all.
const exitFailed = 125

func (b *boot) run() error {
	steps := []struct {
		name string
		do   func() error
	}{
		{"initramfs", b.initramfs},
		{"root", b.root},
		{"mounts", b.mounts},
		{"job", b.job},
		{"rdma", b.rdma},
		{"shares", b.shares},
		{"command", b.command},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		b.result.Boot = append(b.result.Boot, job.Moment{Name: step.name, Seconds: uptime()})
	}
	return nil
}

// job reads what is to be done.
func (b *boot) job() error {
	if err := b.modules.load("9p", "9pnet_virtio", "virtio_console"); err != nil {
		return err
	}
	if err := mount9p(job.Tag, jobDir, false); err != nil {
		return err
	}
	spec, err := job.ReadSpec(jobDir)
	if err != nil {
		return err
	}
	b.spec = spec
	return job.WriteStarted(jobDir)
}

// shares mounts the host's directories at their own paths, and makes links.
func (b *boot) shares() error {
	for _, s := range b.spec.Shares {
		if err := mount9p(s.Tag, s.Path, s.ReadOnly); err != nil {
			return err
		}
	}
	for path, target := range b.spec.Links {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make the directory of a link: %w", err)
		}
		// After a reboot the link is there, and the host may have another target now.
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the link of an earlier boot: %w", err)
		}
		if err := os.Symlink(target, path); err != nil {
			return fmt.Errorf("make a link: %w", err)
		}
	}
	return nil
}

// mount9p mounts a directory of the host. Without a cache what the host changes is
// seen at once, but memory cannot be mapped; "mmap" caches no more than it must.
func mount9p(tag, path string, readOnly bool) error {
	options, flags := "trans=virtio,version=9p2000.L,msize=512000,cache=mmap", uintptr(0)
	if readOnly {
		options, flags = strings.Replace(options, "mmap", "loose", 1), unix.MS_RDONLY
	}
	return mount(tag, path, "9p", flags, options)
}

func mount(source, target, fstype string, flags uintptr, options string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("make mount point: %w", err)
	}
	if err := unix.Mount(source, target, fstype, flags, options); err != nil {
		return fmt.Errorf("mount %s %q on %q: %w", fstype, source, target, err)
	}
	return nil
}

// uptime is the time since the kernel started.
func uptime() float64 {
	data, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(data), " ")
	seconds, _ := strconv.ParseFloat(first, 64)
	return seconds
}

// powerOff ends QEMU by a write to its exit port, which is quicker than ACPI.
func powerOff() {
	unix.Sync()
	port, err := unix.Open("/dev/port", unix.O_WRONLY, 0)
	if err == nil {
		_, err = unix.Pwrite(port, []byte{0}, job.ExitPort)
	}
	fmt.Println("init: exit port:", err)
	err = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	fmt.Println("init: power off:", err)
	select {}
}

// reap waits until process pid has ended, and for every orphan that ends before.
func reap(pid int) (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for process %d: %w", pid, err)
		case got == pid:
			return status, nil
		}
	}
}
