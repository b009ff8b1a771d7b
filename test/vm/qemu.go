package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/job"
)

const qemu = "qemu-system-x86_64"

// errEmulator marks failures of the emulation, not of the guest.
var errEmulator = errors.New("the emulator failed")

var (
	// With several CPUs, one may see half of a patch that another makes to the
	// kernel's code.
	errOops = fmt.Errorf("%w: a known bug (Oops: int3)", errEmulator)
	// The first task patches the kernel's code, and finds flags of the CPU set that nobody sets (NT, at which iret fails).
	errFlags = fmt.Errorf("%w: the guest's first task died of flags that QEMU had wrong", errEmulator)
	// On a busy host the kernel may find that its timers do not keep up.
	errStuck = fmt.Errorf("%w: the guest did not start in %s", errEmulator, startTimeout)
)

// startTimeout is how long the guest may take until its process 1 has read the job;
// usually that is five seconds.
const startTimeout = 2 * time.Minute

// boot starts QEMU, waits for its end and returns what the guest wrote down.
func (v *VM) boot(ctx context.Context, c Cmd) (job.Result, error) {
	dir, err := os.MkdirTemp("", "vm-job-")
	if err != nil {
		return job.Result{}, err
	}
	defer os.RemoveAll(dir)
	if err := job.WriteSpec(dir, c.spec()); err != nil {
		return job.Result{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("%w after %s", ErrTimeout, c.Timeout))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	watchdog := time.AfterFunc(startTimeout, func() {
		if !job.Started(dir) {
			stop(errStuck)
		}
	})
	defer watchdog.Stop()
	seen, runErr := v.start(ctx, c, dir)
	said, _ := os.ReadFile(filepath.Join(dir, consoleFile))
	if _, err := c.Console.Write(said); err != nil {
		return job.Result{}, fmt.Errorf("pass on the guest's console: %w", err)
	}
	r, err := job.ReadResult(dir)
	if err == nil {
		return r, nil
	}
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case strings.Contains(string(said), "Oops: int3"):
		err = errOops
	case !job.Started(dir) && strings.Contains(string(said), "Attempted to kill the idle task"):
		err = errFlags
	case runErr != nil:
		err = runErr
	}
	if seen != "" {
		return r, fmt.Errorf("run the virtual machine: %w; seen from outside:\n%s\nits console:\n%s", err, seen, said)
	}
	return r, fmt.Errorf("run the virtual machine: %w; the end of its console:\n%s", err, lastLines(string(said), 60))
}

// spec is what the guest is told.
func (c Cmd) spec() job.Spec {
	s := job.Spec{Argv: c.Argv, Env: c.Env, Dir: c.Dir, Links: c.Links, Devices: c.Devices, Number: c.Number}
	if c.Uplink != nil {
		s.Uplink = c.Uplink.Address
	}
	for i, share := range c.Shares {
		s.Shares = append(s.Shares, job.Share{Tag: shareTag(i), Path: share.Path, ReadOnly: share.ReadOnly})
	}
	return s
}

func shareTag(i int) string { return fmt.Sprintf("share%d", i) }

// start runs QEMU until its end and passes on what comes out of its ports. It returns what is seen from outside of a
// guest that does not end by itself.
func (v *VM) start(ctx context.Context, c Cmd, dir string) (seen string, err error) {
	cmd := exec.CommandContext(ctx, qemu, v.args(c, dir)...)
	cmd.Cancel = func() error {
		if wantsDump(context.Cause(ctx)) {
			seen = dump(dir, cmd.Process.Pid)
		}
		return cmd.Process.Kill()
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if c.Uplink != nil {
		cmd.Env = append(os.Environ(), relayEnv+"="+c.Uplink.Host)
	}
	cmd.WaitDelay = 5 * time.Second
	// QEMU must not outlive us, whatever kills us. The signal comes when the thread ends
	// that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var copying sync.WaitGroup
	for _, to := range []io.Writer{c.Stdout, c.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return "", err
		}
		defer w.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, w)
		copying.Go(func() {
			defer r.Close()
			io.Copy(to, r)
		})
	}
	err = cmd.Start()
	for _, w := range cmd.ExtraFiles {
		w.Close()
	}
	if err == nil {
		err = cmd.Wait()
	}
	copying.Wait()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", qemu, err, strings.TrimSpace(stderr.String()))
	}
	return seen, err
}

// What the guest's kernel and CPUs are told. cpu and cheapTime make its work cheap to emulate; docs/dev/vm.md has the
// figures.
const (
	// cpu lacks what an emulated CPU does slowly: page tables of a fifth level, checks at each access of the kernel to
	// a program's memory, wide registers, and the instruction that copies byte by byte.
	cpu = "max,la57=off,smap=off,smep=off,avx=off,avx2=off,erms=off"
	// cheapTime has the guest read its time from the CPU, not from an emulated device, and wake up for timers at its
	// tick alone. Go programs set timers of microseconds all the time.
	cheapTime = "tsc=reliable highres=off"
	// debugging has the kernel take all magic keys, and print a backtrace at an NMI, which only dump sends.
	debugging = "sysrq_always_enabled unknown_nmi_panic"
)

// args is QEMU's command line. docs/dev/vm.md has the reasons.
func (v *VM) args(c Cmd, dir string) []string {
	args := []string{
		"-M", "q35", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", cpu,
		"-smp", fmt.Sprint(c.CPUs), "-m", fmt.Sprint(c.MemoryMB),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-kernel", v.image.VMLinux(), "-initrd", v.initrd,
		"-append", "console=ttyS0 quiet panic=-1 reboot=t mitigations=off no_timer_check net.ifnames=0 " + debugging + " " + cheapTime,
		"-chardev", fmt.Sprintf("socket,id=%s,path=%s,server=on,wait=off,logfile=%s", consoleID,
			filepath.Join(dir, consoleSocket), filepath.Join(dir, consoleFile)),
		"-serial", "chardev:" + consoleID,
		"-qmp", fmt.Sprintf("unix:%s,server=on,wait=off", filepath.Join(dir, monitorSocket)),
		"-drive", "if=none,id=root,format=raw,cache=unsafe," + v.disk(c),
		"-device", "virtio-blk-pci,drive=root",
		"-netdev", "user,id=net,restrict=on,net=10.0.2.0/24", "-device", "virtio-net-pci,netdev=net,romfile=,mac=52:54:00:12:34:56",
		"-device", "virtio-rng-pci",
		"-device", fmt.Sprintf("isa-debug-exit,iobase=%#x,iosize=4", job.ExitPort),
		"-device", "virtio-serial-pci",
	}
	args = append(args, c.Uplink.args()...)
	if c.Cable {
		for i := range 2 {
			args = append(args, "-netdev", fmt.Sprintf("hubport,id=cable%d,hubid=0", i),
				"-device", fmt.Sprintf("virtio-net-pci,netdev=cable%d,romfile=,mac=52:54:00:12:35:%02x", i, i))
		}
	}
	for _, p := range c.Ports {
		args = append(args, p.args()...)
	}
	// Descriptors 3 and 4 are our pipes. A file is opened with truncation, which a pipe
	// refuses, unless it is appended to.
	for i, port := range []string{job.StdoutPort, job.StderrPort} {
		args = append(args,
			"-add-fd", fmt.Sprintf("fd=%d,set=%[1]d", 3+i),
			"-chardev", fmt.Sprintf("file,id=port%d,path=/dev/fdset/%[1]d,append=on", 3+i),
			"-device", fmt.Sprintf("virtserialport,chardev=port%d,name=%s", 3+i, port))
	}
	args = append(args, nineP(job.Tag, dir, false)...)
	for i, s := range c.Shares {
		args = append(args, nineP(shareTag(i), s.Path, s.ReadOnly)...)
	}
	return args
}

// disk is the file of the root disk, as QEMU's option.
func (v *VM) disk(c Cmd) string {
	if c.Disk == "" {
		return "snapshot=on,file=" + v.image.Root()
	}
	return "file=" + c.Disk
}

// nineP shares a directory.
func nineP(tag, path string, readOnly bool) []string {
	fsdev := fmt.Sprintf("local,id=%s,path=%s,security_model=none,multidevs=remap", tag, path)
	if readOnly {
		fsdev += ",readonly=on"
	}
	return []string{"-fsdev", fsdev, "-device", fmt.Sprintf("virtio-9p-pci,fsdev=%s,mount_tag=%[1]s", tag)}
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\r\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
