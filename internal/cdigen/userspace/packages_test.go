package userspace

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/rdmacore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// These tests are about real packages: those of this machine, and those that
// testdata/packages.sh has unpacked where RDMA_PACKAGES says.

func packagesDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("RDMA_PACKAGES")
	if dir == "" {
		t.Skip("this test needs packages of Debian: run testdata/packages.sh DIR, and set RDMA_PACKAGES=DIR")
	}
	return dir
}

func dirFS(dir string) fs.ReadLinkFS { return os.DirFS(dir).(fs.ReadLinkFS) }

// TestFindHost makes a plan for this machine, if it has rdma-core.
func TestFindHost(t *testing.T) {
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	plan, err := Find(dirFS("/"), Options{Machine: machine})
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("this machine has no rdma-core: ", err)
	}
	must.NoError(t, err)
	for _, m := range plan.Mounts {
		if _, err := os.Stat(m.HostPath); err != nil {
			t.Error(err)
		}
	}
}

// TestFindPackages makes plans for four hosts of Debian.
func TestFindPackages(t *testing.T) {
	dir := packagesDir(t)
	for name, glibc := range map[string]string{
		"bookworm-amd64": "2.34", "bookworm-arm64": "2.34", "trixie-amd64": "2.38", "trixie-arm64": "2.38",
	} {
		plan, err := Find(dirFS(filepath.Join(dir, name)),
			Options{Machine: machineOf(name), Drivers: []string{"mlx5_core", "efa", "mana", "ice", "rxe"}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if plan.ABI != "34" || plan.GLIBC != glibc || len(plan.Drivers) < 16 || len(plan.Warnings) > 0 {
			t.Errorf("%s: ABI %s, glibc %s, drivers %v, warnings %v", name, plan.ABI, plan.GLIBC, plan.Drivers, plan.Warnings)
		}
	}
}

func machineOf(name string) elf.Machine {
	if strings.HasSuffix(name, "arm64") {
		return elf.EM_AARCH64
	}
	return elf.EM_X86_64
}

// TestContainerPackages runs ibv_devices of Debian in images that have a libc and
// no libibverbs, on a made-up sysfs, with the libraries of hosts.
func TestContainerPackages(t *testing.T) {
	requirements(t)
	dir := packagesDir(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the glibc with /lib64 is one for amd64")
	}
	for _, hostName := range []string{"bookworm-amd64", "trixie-amd64"} {
		hostRoot := filepath.Join(dir, hostName)
		plan, err := Find(dirFS(hostRoot), Options{Machine: elf.EM_X86_64, Drivers: []string{"mlx5_core", "rxe"}})
		must.NoError(t, err)
		tooOld := map[string]string{"trixie-amd64": "`GLIBC_2.38' not found"}[hostName]
		for _, tt := range []struct{ image, problem string }{
			{"bookworm-amd64", tooOld}, {"trixie-amd64", ""}, {"lib64-amd64", tooOld},
		} {
			t.Run(hostName+" in "+tt.image, func(t *testing.T) {
				image := imageOf(t, dir, tt.image)
				c := container{image: image, args: []string{"/bin/ibv_devices"}, env: []string{"SYSFS_PATH=/fixture"},
					binds: verbsDevices(t, image)}
				if out, err := c.run(t); err == nil || !strings.Contains(out, "libibverbs.so.1: cannot open shared object file") {
					t.Errorf("without a plan: %v, output %q", err, out)
				}
				c.hostRoot, c.mounts = hostRoot, plan.Mounts
				out, err := c.run(t)
				if tt.problem != "" {
					if err == nil || !strings.Contains(out, tt.problem) {
						t.Errorf("run %v, output %q; want %q", err, out, tt.problem)
					}
					return
				}
				for _, want := range []string{"mlx5_0", "0011223344556677", "rxe0"} {
					if err != nil || !strings.Contains(out, want) || strings.Contains(out, "Warning") {
						t.Errorf("run %v, output %q; want %s in it", err, out, want)
					}
				}
			})
		}
	}
}

// imageOf makes an image with the libc of unpacked packages and with ibv_devices,
// which every Debian links alike.
func imageOf(t *testing.T, dir, name string) string {
	t.Helper()
	root := t.TempDir()
	from := filepath.Join(dir, name)
	mkdir(t, filepath.Join(root, "usr/lib64"), filepath.Join(root, "bin"))
	symlink(t, "usr/lib", filepath.Join(root, "lib"))
	symlink(t, "usr/lib64", filepath.Join(root, "lib64"))
	for _, libs := range []string{"usr/lib/x86_64-linux-gnu", "usr/lib64"} {
		mkdir(t, filepath.Join(root, libs))
		entries, _ := os.ReadDir(filepath.Join(from, libs))
		for _, e := range entries {
			if rdmacore.PartOfGLIBC(e.Name()) {
				copyFile(t, filepath.Join(from, libs, e.Name()), filepath.Join(root, libs, e.Name()), nil)
			}
		}
	}
	copyFile(t, filepath.Join(dir, "bookworm-amd64/usr/bin/ibv_devices"), filepath.Join(root, "bin/ibv_devices"), nil)
	return root
}

// verbsDevices makes the part of sysfs that libibverbs reads of two HCAs, and files
// in the place of their character devices, which it does not open to list them.
func verbsDevices(t *testing.T, image string) []cdi.Mount {
	t.Helper()
	sys, dev := t.TempDir(), t.TempDir()
	for name, data := range map[string]string{
		"infiniband_verbs/abi_version":         "6\n",
		"infiniband_verbs/uverbs0/ibdev":       "mlx5_0\n",
		"infiniband_verbs/uverbs0/dev":         "231:192\n",
		"infiniband_verbs/uverbs0/abi_version": "1\n",
		"infiniband/mlx5_0/node_type":          "1: CA\n",
		"infiniband/mlx5_0/node_guid":          "0011:2233:4455:6677\n",
		"infiniband/mlx5_0/device/modalias":    "pci:v000015B3d00001021sv000015B3sd00000022bc02sc00i00\n",
		"infiniband_verbs/uverbs1/ibdev":       "rxe0\n",
		"infiniband_verbs/uverbs1/dev":         "231:193\n",
		"infiniband_verbs/uverbs1/abi_version": "2\n",
		"infiniband/rxe0/node_type":            "1: CA\n",
		"infiniband/rxe0/node_guid":            "0211:22ff:fe33:4455\n",
	} {
		mkdir(t, filepath.Join(sys, "class", path.Dir(name)))
		write(t, filepath.Join(sys, "class", name), data)
	}
	for _, name := range []string{"uverbs0", "uverbs1"} {
		write(t, filepath.Join(dev, name), "")
	}
	mkdir(t, filepath.Join(image, "fixture"))
	return []cdi.Mount{{HostPath: sys, ContainerPath: "/fixture"}, {HostPath: dev, ContainerPath: "/dev/infiniband"}}
}
