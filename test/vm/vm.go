package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/image"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/job"
)

// ToolsImage is the name of the container image in the archive VM.Tools.
const ToolsImage = image.ToolsImage

// Device is a software RDMA device on a network device of the guest: {"rxe0", "eth0"},
// {"siw0", "dummy0"}. The letters of the name are the driver. The n-th device gets the
// addresses 10.77.n.1/24 and fd77:n::1/64, whose last number is Cmd.Number.
type Device = job.Device

// Share is a directory of the host that the guest has at the same path.
type Share struct {
	Path     string
	ReadOnly bool
}

// Options say what is wanted. The zero value is a good default.
type Options struct {
	// CacheDir holds the image; $DRA_RDMA_CACHE, or dra-driver-rdma in the
	// user's cache, when empty.
	CacheDir string
	// Mirror is the Debian mirror for a build: $DRA_RDMA_DEBIAN_MIRROR or
	// http://deb.debian.org/debian when empty.
	Mirror string
	// Renew builds the image anew, with today's packages.
	Renew bool
	// Progress receives one line per step of a build; nil for silence.
	Progress io.Writer
}

// VM is an image that can be booted.
type VM struct {
	image    *image.Image
	initrd   string
	progress io.Writer
}

// Build finds the image in the cache, or builds it, which takes some minutes.
func Build(ctx context.Context, o Options) (*VM, error) {
	b, err := o.builder()
	if err != nil {
		return nil, err
	}
	img, err := b.Ensure(ctx, o.Renew)
	if err != nil {
		return nil, err
	}
	initrd, err := makeInitrd(ctx, o.CacheDir, img)
	if err != nil {
		return nil, err
	}
	return &VM{image: img, initrd: initrd, progress: o.Progress}, nil
}

// builder completes the options.
func (o *Options) builder() (*image.Builder, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	start := time.Now()
	step := func(format string, args ...any) {
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "[%6.1fs] %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
		}
	}
	return &image.Builder{Cache: o.CacheDir, Mirror: o.Mirror, Step: step}, nil
}

func (o *Options) complete() (err error) {
	if o.CacheDir == "" {
		o.CacheDir = os.Getenv("DRA_RDMA_CACHE")
	}
	if o.CacheDir == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("find the cache directory: %w (set DRA_RDMA_CACHE)", err)
		}
		o.CacheDir = filepath.Join(dir, "dra-driver-rdma")
	}
	if o.Mirror == "" {
		o.Mirror = os.Getenv("DRA_RDMA_DEBIAN_MIRROR")
	}
	if o.Mirror == "" {
		o.Mirror = "http://deb.debian.org/debian"
	}
	o.CacheDir, err = filepath.Abs(o.CacheDir)
	return err
}

// ErrUnavailable says that this host cannot run a virtual machine, and why.
var ErrUnavailable = errors.New("no virtual machine can run here")

// Check says what the host lacks, as an ErrUnavailable.
func Check() error {
	var errs []error
	if runtime.GOARCH != "amd64" {
		errs = append(errs, fmt.Errorf("only amd64 hosts are supported, this is %s", runtime.GOARCH))
	}
	if os.Geteuid() != 0 {
		errs = append(errs, errors.New("root is needed to build the image and to share directories"))
	}
	if _, err := exec.LookPath(qemu); err != nil {
		errs = append(errs, fmt.Errorf("%w (run hack/install-packages.sh vm)", err))
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(errs...))
	}
	return nil
}

// Kernel is the kernel's version.
func (v *VM) Kernel() string { return v.image.Kernel }

// Package is the version of a Debian package in the guest, empty if it is not there.
func (v *VM) Package(name string) string { return v.image.Packages[name] }

// Tools is a docker-archive with a small image of RDMA programs and a shell. Share
// its directory with the guest that is to load it.
func (v *VM) Tools() string { return v.image.Tools() }

// Cmd is a command for the guest and the machine that it wants.
type Cmd struct {
	// Argv is the program, found in the guest, and its arguments.
	Argv []string
	// Env is added to a plain environment with DRA_RDMA_VM=1.
	Env []string
	// Dir is the working directory, /root when empty.
	Dir string
	// Shares are directories of the host.
	Shares []Share
	// Links are symbolic links to make in the guest, from their path to the target.
	Links map[string]string
	// Devices are made before the command starts.
	Devices []Device
	// Uplink is nil for a guest without a way out.
	Uplink *Uplink
	// Cable gives the guest two more network devices, PCI functions that are connected to each
	// other and to nothing else: eth1 and eth2, or eth2 and eth3 beside an uplink.
	Cable bool
	// Ports give the guest a network device each, a PCI function at a port of a Switch: the next ethN after those above.
	Ports []*Port
	// Number tells guests apart that a Switch joins: it is the last number of the addresses of Devices. 0 stands for 1.
	Number int
	// Disk is the path of the root disk, which outlives the machine. Run copies the image to it if nothing is there.
	// Without Disk, what the guest writes ends with the machine. Two runs with one Disk are a reboot. A run whose
	// context ends is a power cut.
	Disk string
	// MemoryMB is 1024 and CPUs is 1 when 0. QEMU's emulation of more than one CPU
	// panics the guest now and then; Run tries once more then.
	MemoryMB, CPUs int
	// Timeout ends the machine; 10 minutes when 0.
	Timeout time.Duration
	// Stdout and Stderr may be nil.
	Stdout, Stderr io.Writer
	// Console receives what the guest's kernel has printed, when the machine has ended. It may be nil.
	Console io.Writer
}

// ErrTimeout says that a command took longer than it was given.
var ErrTimeout = errors.New("time is up")

// Run boots, runs the command and returns its exit status: 128 and the signal's number
// where a signal ended it, 127 where it was not found. The error says why there is
// none.
func (v *VM) Run(ctx context.Context, c Cmd) (int, error) {
	if err := c.complete(); err != nil {
		return 0, err
	}
	if err := v.makeDisk(ctx, c.Disk); err != nil {
		return 0, err
	}
	r, err := v.boot(ctx, c)
	if errors.Is(err, errEmulator) {
		fmt.Fprintf(v.log(), "vm: %v: starting it once more\n", err)
		r, err = v.boot(ctx, c)
	}
	if err != nil {
		return 0, err
	}
	if r.Error != "" {
		return 0, fmt.Errorf("prepare the guest: %s", r.Error)
	}
	return r.Exit, nil
}

func (v *VM) log() io.Writer {
	if v.progress == nil {
		return io.Discard
	}
	return v.progress
}

// ownDirs are directories that the guest needs as they are.
var ownDirs = []string{"/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var"}

func (c *Cmd) complete() error {
	if len(c.Argv) == 0 {
		return errors.New("run in the virtual machine: no command is given")
	}
	c.Shares = slices.Clone(c.Shares)
	for i, s := range c.Shares {
		path, err := filepath.Abs(s.Path)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return fmt.Errorf("share directory %q: %w", s.Path, err)
		}
		if slices.Contains(ownDirs, path) || strings.Contains(path, ",") {
			return fmt.Errorf("share directory %q: the guest needs its own, or the name has a comma", path)
		}
		c.Shares[i].Path = path
	}
	if c.Uplink != nil {
		if _, _, err := net.ParseCIDR(c.Uplink.Address); err != nil {
			return fmt.Errorf("read the address of the uplink: %w", err)
		}
	}
	for _, fill := range []struct {
		value     *int
		byDefault int
	}{{&c.MemoryMB, 1024}, {&c.CPUs, 1}, {&c.Number, 1}} {
		if *fill.value == 0 {
			*fill.value = fill.byDefault
		}
	}
	if strings.Contains(c.Disk, ",") {
		return fmt.Errorf("use disk %q: the name has a comma", c.Disk)
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Minute
	}
	for _, to := range []*io.Writer{&c.Stdout, &c.Stderr, &c.Console} {
		if *to == nil {
			*to = io.Discard
		}
	}
	return nil
}
