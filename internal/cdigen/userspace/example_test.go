package userspace

import (
	"debug/elf"
	"fmt"
)

// A host of Debian 12 with one ConnectX. A program has hostfs.DirFS("/") instead.
func Example() {
	plan, err := Find(debian().files, Options{Machine: elf.EM_X86_64, Drivers: []string{"mlx5_core"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("private ABI", plan.ABI, "needs glibc", plan.GLIBC)
	for _, m := range plan.Mounts[:2] {
		fmt.Println(m.HostPath, "->", m.ContainerPath)
	}
	// Output:
	// private ABI 34 needs glibc 2.34
	// /etc/libibverbs.d -> /etc/libibverbs.d
	// /usr/lib/x86_64-linux-gnu/libefa.so.1 -> /usr/lib/x86_64-linux-gnu/libefa.so.1
}
