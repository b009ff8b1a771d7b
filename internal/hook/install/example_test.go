package install_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/install"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	src := filepath.Join(dir, "source")
	if err := os.WriteFile(src, []byte("binary"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	bin := filepath.Join(dir, "bin")
	named := install.Path(bin, "v1") // by a CDI spec that is still there
	for _, version := range []string{"v1", "v2", "v3"} {
		if _, err := install.Install(src, bin, version); err != nil {
			fmt.Println(err)
		}
	}
	current := install.Path(bin, "v3")
	removed, err := install.Prune(bin, func(path string) bool { return path == current || path == named })
	for _, path := range removed {
		fmt.Println("removed", filepath.Base(path))
	}
	fmt.Println(err)
	// Output:
	// removed rdma-hook-v2
	// <nil>
}
