package userspace

import (
	"debug/elf"
	"fmt"
)

// A host of Debian 12 with one ConnectX, and an image of a RHEL 8: its glibc is too
// old. A program has os.DirFS("/") and the directory of the unpacked image instead.
func Example() {
	host, image := debian().files, newImage(elf.EM_X86_64, "usr/lib64", "2.2.5", "2.28").files

	plan, err := Find(host, Options{Machine: elf.EM_X86_64, Drivers: []string{"mlx5_core"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("private ABI", plan.ABI, "needs glibc", plan.GLIBC)
	for _, m := range plan.Mounts[:2] {
		fmt.Println(m.HostPath, "->", m.ContainerPath)
	}
	for _, p := range CheckImage(image, plan) {
		fmt.Println(p)
	}
	// Output:
	// private ABI 34 needs glibc 2.34
	// /etc/libibverbs.d -> /etc/libibverbs.d
	// /usr/lib/x86_64-linux-gnu/libefa.so.1 -> /usr/lib/x86_64-linux-gnu/libefa.so.1
	// the image's glibc 2.28 is older than 2.34, which is needed by libefa-rdmav34.so, libefa.so.1, libibverbs.so.1 and 6 more: use an image with a newer distribution, or install rdma-core in the image
}
