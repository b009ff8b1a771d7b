package image

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// work is one build.
type work struct {
	*Builder
	tmp, out string
	// root becomes the root file system; kit is a copy of it with a compiler.
	root, kit tree
	kernel    kernel
}

// step is one of a build.
type step struct {
	name string
	do   func(context.Context) error
}

func (w *work) run(ctx context.Context) error {
	steps := []step{
		{"install the base system of Debian " + release, w.bootstrap},
		{"install container runtimes and RDMA tools", func(ctx context.Context) error { return w.install(ctx, packages) }},
		{"prepare a copy for building modules", w.prepareKit},
		{"fetch the kernel", w.fetchKernel},
		{"unpack the kernel", w.unpackKernel},
		{"build soft-iWARP", w.buildSIW},
		{"build a soft-RoCE that can be moved", w.buildRXM},
		{"build a simulated network device", w.buildNetdevsim},
		{"choose the modules", w.chooseModules},
		{"make the container image", func(ctx context.Context) error {
			return w.makeArchive(ctx, archive{name: ToolsImage, file: toolsFile, programs: toolPrograms, trees: providerDirs})
		}},
		{"make the root file system", w.makeRoot},
	}
	start := time.Now()
	if err := w.do(ctx, steps); err != nil {
		return err
	}
	w.Step("built kernel %s and its root file system in %.0f s", w.kernel.version, time.Since(start).Seconds())
	return nil
}

// do takes the steps of a build, and reports them.
func (w *work) do(ctx context.Context, steps []step) error {
	for i, step := range steps {
		began := time.Now()
		w.Step("[%d/%d] %s ...", i+1, len(steps), step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		w.Step("[%d/%d] %s: %.1f s", i+1, len(steps), step.name, time.Since(began).Seconds())
	}
	return nil
}

// tree is a Debian system in a directory.
type tree struct{ dir string }

func (t tree) path(name string) string { return filepath.Join(t.dir, name) }

// follow returns the path on this host of a file of the system: an absolute link leads to another file of the system.
func (t tree) follow(name string) (string, error) {
	for range 10 {
		path := t.path(name)
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil // no link, or nothing: the caller reads it
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(name), target)
		}
		name = target
	}
	return "", fmt.Errorf("follow the link %q: it leads to too many others", name)
}

// run runs a program of the system in it, with a /proc of its own. Whatever it leaves
// running dies with it.
func (t tree) run(ctx context.Context, argv ...string) (string, error) {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return "", err
	}
	args := []string{"-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
		unshare, "--mount", "--pid", "--fork", "--kill-child", "--root=" + t.dir, "--wd=/", "--mount-proc"}
	return output(ctx, "env", append(args, argv...)...)
}

func (t tree) install(ctx context.Context, packages ...string) error {
	_, err := t.run(ctx, append([]string{"apt-get", "install", "--quiet", "--yes", "--no-install-recommends"}, packages...)...)
	return err
}

// write writes a file of the system.
func (t tree) write(name, text string, mode os.FileMode) error {
	path := t.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), mode)
}

func (w *work) bootstrap(ctx context.Context) error {
	args := []string{"--variant=minbase", release, w.root.dir, w.Mirror}
	// Ubuntu's debootstrap does not know Debian's keys by itself.
	const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	if _, err := os.Stat(keyring); err != nil {
		return fmt.Errorf("find Debian's keys: %w (install the package debian-archive-keyring)", err)
	}
	_, err := output(ctx, "debootstrap", append([]string{"--keyring=" + keyring}, args...)...)
	return err
}

func (w *work) install(ctx context.Context, packages []string) error {
	sources := strings.NewReplacer("MIRROR", strings.TrimSuffix(w.Mirror, "/"), "RELEASE", release).Replace(
		"deb MIRROR RELEASE main\ndeb MIRROR RELEASE-updates main\ndeb MIRROR-security RELEASE-security main\n")
	proxy, err := aptProxy(ctx)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name, text string
		mode       os.FileMode
	}{
		{"etc/apt/sources.list", sources, 0o644},
		{"etc/apt/apt.conf.d/90vm", proxy, 0o644},
		{"etc/dpkg/dpkg.cfg.d/vm", dpkgConfig, 0o644},
		{"usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", 0o755}, // start no service
	} {
		if err := w.root.write(f.name, f.text, f.mode); err != nil {
			return err
		}
	}
	if _, err := w.root.run(ctx, "apt-get", "--quiet", "update"); err != nil {
		return err
	}
	return w.root.install(ctx, packages...)
}

// aptProxy takes over the host's proxy settings for apt, where it has any.
func aptProxy(ctx context.Context) (string, error) {
	config, err := exec.LookPath("apt-config")
	if err != nil {
		return "", nil
	}
	dump, err := output(ctx, config, "dump")
	var lines []string
	for line := range strings.Lines(dump) {
		if strings.HasPrefix(line, "Acquire::http::Proxy ") || strings.HasPrefix(line, "Acquire::https::Proxy ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, ""), err
}

// makeRoot makes the file system's image and the manifest.
func (w *work) makeRoot(ctx context.Context) error {
	manifest, err := w.manifest(ctx)
	if err != nil {
		return err
	}
	for _, garbage := range []string{"var/cache/apt", "var/lib/apt/lists", "usr/sbin/policy-rc.d", "etc/apt/apt.conf.d/90vm"} {
		if err := os.RemoveAll(w.root.path(garbage)); err != nil {
			return err
		}
	}
	// An ordinary user, for rootless containers.
	if _, err := w.root.run(ctx, "useradd", "--create-home", "--uid", "1000", "--shell", "/bin/bash", "user"); err != nil {
		return err
	}
	_, err = output(ctx, "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal,^metadata_csum", "-m", "0",
		"-E", "lazy_itable_init=1,root_owner=0:0", "-d", w.root.dir, filepath.Join(w.out, rootFile), "8G")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.out, manifestFile), manifest, 0o644)
}

func (w *work) manifest(ctx context.Context) ([]byte, error) {
	list, err := w.root.run(ctx, "dpkg-query", "--show", "--showformat=${Package} ${Version}\n")
	if err != nil {
		return nil, err
	}
	m := Manifest{Kernel: w.kernel.version, Built: time.Now().UTC().Truncate(time.Second), Packages: map[string]string{}}
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) == 2 {
			m.Packages[f[0]] = f[1]
		}
	}
	return json.MarshalIndent(m, "", "  ")
}
