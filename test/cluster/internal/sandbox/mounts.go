package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// overlaid are the host's directories that stay readable and whose changes are the
// cluster's own.
var overlaid = []string{"/etc", "/var", "/opt"}

// covered are the directories below which a path must be kept explicitly.
var covered = append([]string{"/run", "/dev", "/sys", "/proc"}, overlaid...)

func mountAll(c Config) error {
	if err := mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	kept, err := openKept(append([]string{c.StateDir, c.HostRoot}, c.Keep...))
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return mountOverlays(c) },
		mountRun,
		func() error { return kept.restore() },
		func() error { return mountPrivate(c) },
		func() error { return mountDev(c.WholeMachine) },
		func() error { return mountSys(c.Cgroups, c.WholeMachine) },
		func() error { return mountProc(c.StateDir) },
		// A pod's hostPath with HostToContainer propagation needs shared mounts,
		// as systemd makes them on a real node.
		func() error { return mount("none", "/", "", unix.MS_REC|unix.MS_SHARED, "") },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// mountOverlays covers the overlaid directories. Upper directories live in the state
// directory; relative names spare us the escaping of mount options.
func mountOverlays(c Config) error {
	private := filepath.Join(c.StateDir, "private")
	if err := mountOwn(c, private, "mode=0700"); err != nil {
		return err
	}
	if err := os.Chdir(private); err != nil {
		return err
	}
	for _, dir := range overlaid {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			continue
		}
		name := strings.TrimPrefix(dir, "/")
		if err := errors.Join(os.MkdirAll(name+"/upper", 0o755), os.MkdirAll(name+"/work", 0o755)); err != nil {
			return err
		}
		options := fmt.Sprintf("lowerdir=%s,upperdir=%[2]s/upper,workdir=%[2]s/work", dir, name)
		if err := mount("overlay", dir, "overlay", 0, options); err != nil {
			return err
		}
	}
	return os.Chdir("/")
}

func mountRun() error {
	if err := tmpfs("/run", "mode=0755"); err != nil {
		return err
	}
	for _, dir := range []string{"/run/lock", "/run/netns", "/run/cdi"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if target, err := filepath.EvalSymlinks("/var/run"); err == nil && target == "/run" {
		return nil
	}
	return bind("/run", "/var/run")
}

// mountOwn covers a directory by one of the cluster's own: in memory, or on the disk of a whole machine, where it
// survives a reboot.
func mountOwn(c Config, dir, options string) error {
	if !c.WholeMachine {
		return tmpfs(dir, options)
	}
	own := filepath.Join(c.StateDir, "disk", dir)
	if err := os.MkdirAll(own, 0o755); err != nil {
		return err
	}
	return bind(own, dir)
}

// mountPrivate puts the cluster's own directories on the default paths.
func mountPrivate(c Config) error {
	for _, dir := range emptyDirs {
		if err := mountOwn(c, dir, "mode=0755"); err != nil {
			return err
		}
	}
	for target, source := range privateDirs(c) {
		if err := bind(source, target); err != nil {
			return err
		}
	}
	// An overlay (a CI container's disk) cannot hold the snapshotter's overlays.
	var fs unix.Statfs_t
	if err := unix.Statfs(c.StateDir, &fs); err != nil {
		return fmt.Errorf("find the filesystem of %q: %w", c.StateDir, err)
	}
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return tmpfs("/var/lib/containerd", "mode=0711")
	}
	return nil
}

// tunables are the sysctls without a namespace that the kubelet insists on. It reads
// the value it wants from a file that covers the real one, and writes nothing.
var tunables = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

func mountProc(stateDir string) error {
	if err := mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := mount("/proc/sys", "/proc/sys", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := mount("/proc/sys/net", "/proc/sys/net", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	for name, value := range tunables {
		file := filepath.Join(stateDir, "private", strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	if err := mount("none", "/proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	return mountWholeProc("/run/whole-proc")
}

// mountWholeProc mounts a procfs without covered parts. The kernel lets a user namespace mount its own procfs only
// beside such a procfs (mount_too_revealing in fs/namespace.c). Pods with hostUsers: false have a user namespace.
func mountWholeProc(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return mount("proc", dir, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// kept holds directories open by path while mounts cover them.
type kept map[string]*os.File

func openKept(paths []string) (kept, error) {
	k := kept{}
	for _, path := range paths {
		if path == "" || !isCovered(path) {
			continue
		}
		f, err := os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open the directory to keep: %w", err)
		}
		k[path] = f
	}
	return k, nil
}

func isCovered(path string) bool {
	for _, dir := range covered {
		if strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// restore binds every kept directory at its own path again.
func (k kept) restore() error {
	for path, f := range k {
		if err := bind(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), path); err != nil {
			return err
		}
		f.Close()
	}
	return nil
}
