package image

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// kernel is a kernel of the distribution.
type kernel struct {
	// version is what uname -r says: 6.12.117+deb12-amd64.
	version string
	// debian is the version of its packages: 6.12.117-1~deb12u1.
	debian string
}

// prepareKit makes a copy of the system with a compiler: the root file system needs
// none.
func (w *work) prepareKit(ctx context.Context) error {
	if _, err := output(ctx, "cp", "--archive", "--reflink=auto", w.root.dir, w.kit.dir); err != nil {
		return err
	}
	return w.kit.install(ctx, buildPackages...)
}

// fetchKernel finds the current kernel and downloads its packages. They are unpacked
// and not installed, which would make an initramfs that nobody needs.
func (w *work) fetchKernel(ctx context.Context) error {
	k, err := w.findKernel(ctx)
	if err != nil {
		return err
	}
	w.kernel = k
	flavour := strings.LastIndex(k.version, "-")
	abi := k.version[:flavour]
	// kbuild is the only one that needs libraries, so it is installed.
	if err := w.kit.install(ctx, "linux-kbuild-"+abi); err != nil {
		return err
	}
	series := strings.TrimSuffix(strings.TrimPrefix(kernelPackage, "linux-image-"), k.version[flavour:])
	argv := []string{"env", "--chdir=/kernel", "apt-get", "--quiet", "-o", "APT::Sandbox::User=root", "download"}
	for _, name := range []string{"linux-image-" + k.version, "linux-headers-" + k.version, "linux-headers-" + abi + "-common", "linux-source-" + series} {
		argv = append(argv, name+"="+k.debian)
	}
	if err := os.Mkdir(w.kit.path("kernel"), 0o755); err != nil {
		return err
	}
	_, err = w.kit.run(ctx, argv...)
	return err
}

// findKernel asks apt which kernel the metapackage stands for today.
func (w *work) findKernel(ctx context.Context) (k kernel, err error) {
	depends, err := w.kit.run(ctx, "apt-cache", "depends", "--important", kernelPackage)
	if err != nil {
		return k, err
	}
	for line := range strings.Lines(depends) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); ok && k.version == "" {
			k.version = name
		}
	}
	if k.version == "" || !strings.Contains(k.version, "-") {
		return k, fmt.Errorf("find the kernel of package %q: apt-cache says %q", kernelPackage, depends)
	}
	shown, err := w.kit.run(ctx, "apt-cache", "show", "--no-all-versions", "linux-image-"+k.version)
	for line := range strings.Lines(shown) {
		if v, ok := strings.CutPrefix(line, "Version: "); ok {
			k.debian = strings.TrimSpace(v)
		}
	}
	return k, err
}

// unpackKernel unpacks the packages and the kernel itself.
func (w *work) unpackKernel(ctx context.Context) error {
	// dpkg-deb --extract would replace the link /lib by a directory.
	const unpack = `set -e
for deb in /kernel/linux-image-* /kernel/linux-headers-*; do
	dpkg-deb --fsys-tarfile "$deb" | tar --extract --keep-directory-symlink --directory=/
done
dpkg-deb --fsys-tarfile /kernel/linux-source-* | tar --extract --to-stdout --wildcards '*.tar.xz' |
	tar --extract --xz --directory=/kernel --strip-components=1 --wildcards '*/drivers/infiniband/sw/siw/*' '*/drivers/infiniband/sw/rxe/*' '*/drivers/net/netdevsim/*'`
	if _, err := w.kit.run(ctx, "bash", "-o", "pipefail", "-c", unpack); err != nil {
		return err
	}
	path := w.kit.path("boot/vmlinuz-" + w.kernel.version)
	compressed, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	vmlinux, err := unpackVMLinux(compressed)
	if err != nil {
		return fmt.Errorf("unpack %q: %w", path, err)
	}
	return os.WriteFile(filepath.Join(w.out, kernelFile), vmlinux, 0o644)
}

// unpackVMLinux takes the kernel out of a bzImage. QEMU starts an ELF file directly,
// which spares it a second of unpacking in every emulated boot. The header is that of
// https://docs.kernel.org/arch/x86/boot.html, protocol 2.08.
func unpackVMLinux(image []byte) ([]byte, error) {
	const (
		setupSectors, magic          = 0x1f1, 0x202
		payloadOffset, payloadLength = 0x248, 0x24c
	)
	if len(image) < 0x250 || string(image[magic:magic+4]) != "HdrS" {
		return nil, errors.New("this is no bzImage: its header has no magic number")
	}
	start := (int(image[setupSectors])+1)*512 + int(binary.LittleEndian.Uint32(image[payloadOffset:]))
	length := int(binary.LittleEndian.Uint32(image[payloadLength:]))
	// The last four bytes are the size of what is unpacked.
	if length < 8 || start+length > len(image) {
		return nil, fmt.Errorf("the bzImage's header says that the kernel is at %d to %d of %d bytes", start, start+length, len(image))
	}
	payload := image[start : start+length-4]
	if !bytes.HasPrefix(payload, []byte("\x28\xb5\x2f\xfd")) {
		return nil, fmt.Errorf("the kernel is not compressed with zstd: it begins with %q", payload[:4])
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	elf, err := decoder.DecodeAll(payload, nil)
	if err == nil && !bytes.HasPrefix(elf, []byte("\x7fELF")) {
		err = errors.New("the unpacked kernel is no ELF file")
	}
	return elf, err
}

// buildSIW compiles soft-iWARP, which Debian's configuration leaves out.
func (w *work) buildSIW(ctx context.Context) error {
	const source = "/kernel/drivers/infiniband/sw/siw"
	const build = `set -e
make --directory="/lib/modules/$1/build" M="$2" CONFIG_RDMA_SIW=m modules
strip --strip-debug "$2/siw.ko"
install -D --mode=644 "$2/siw.ko" "/lib/modules/$1/extra/siw.ko"`
	_, err := w.kit.run(ctx, "sh", "-c", build, "sh", w.kernel.version, source)
	return err
}

// rxmPatch makes soft-RoCE a device that can follow a pod; it says how.
//
//go:embed rxm.patch
var rxmPatch []byte

// buildRXM compiles the changed soft-RoCE as a module of its own, rdma_rxm: whoever asks
// for rdma_rxe gets Debian's.
func (w *work) buildRXM(ctx context.Context) error {
	const source = "/kernel/drivers/infiniband/sw/rxe"
	const build = `set -e
patch --directory="$2" --strip=1 < /kernel/rxm.patch
sed --in-place s/rdma_rxe/rdma_rxm/ "$2/Makefile"
make --directory="/lib/modules/$1/build" M="$2" CONFIG_RDMA_RXE=m modules
strip --strip-debug "$2/rdma_rxm.ko"
install -D --mode=644 "$2/rdma_rxm.ko" "/lib/modules/$1/extra/rdma_rxm.ko"`
	if err := os.WriteFile(w.kit.path("kernel/rxm.patch"), rxmPatch, 0o644); err != nil {
		return err
	}
	_, err := w.kit.run(ctx, "sh", "-c", build, "sh", w.kernel.version, source)
	return err
}

// buildNetdevsim compiles the kernel's simulated network device, which Debian's configuration leaves out. Its devlink
// health reporter "dummy" fails on request. It gets the name of the reporter of a card's firmware.
func (w *work) buildNetdevsim(ctx context.Context) error {
	const source = "/kernel/drivers/net/netdevsim"
	const build = `set -e
grep --quiet '"dummy"' "$2/health.c"
sed --in-place 's/"dummy"/"fw"/' "$2/health.c"
make --directory="/lib/modules/$1/build" M="$2" CONFIG_NETDEVSIM=m modules
strip --strip-debug "$2/netdevsim.ko"
install -D --mode=644 "$2/netdevsim.ko" "/lib/modules/$1/extra/netdevsim.ko"`
	_, err := w.kit.run(ctx, "sh", "-c", build, "sh", w.kernel.version, source)
	return err
}
