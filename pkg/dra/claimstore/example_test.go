package claimstore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

func ExampleStore_Claim() {
	dir, err := os.MkdirTemp("", "claimstore-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := claimstore.Open(dir, claimstore.Boot{ID: "this boot"})
	if err != nil {
		fmt.Println(err)
		return
	}
	device := []plan.Device{{Request: "nic", Device: "pci-0000-3b-00-0"}}
	fmt.Println(store.Claim(context.Background(), &plan.Plan{UID: "uid-1", Namespace: "default",
		Name: "a", Devices: device}))
	fmt.Println(store.Claim(context.Background(), &plan.Plan{UID: "uid-2", Namespace: "default",
		Name: "b", Devices: device}))
	// Output:
	// <nil>
	// claim default/b: device pci-0000-3b-00-0 is in use by claim default/a (uid-1): two claims were given one device; delete the pod of one of them
}
