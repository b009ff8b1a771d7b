package vm_test

import (
	"context"
	"fmt"
	"os"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
)

func Example() {
	v, err := vm.Build(context.Background(), vm.Options{Progress: os.Stderr})
	if err != nil {
		fmt.Println(err)
		return
	}
	code, err := v.Run(context.Background(), vm.Cmd{
		Argv:    []string{"ibv_devinfo", "-d", "rxe0"},
		Devices: []vm.Device{{Name: "rxe0", Netdev: "eth0"}},
		Stdout:  os.Stdout, Stderr: os.Stderr,
	})
	fmt.Println(code, err)
}
