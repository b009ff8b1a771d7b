package runtimes_test

import (
	"fmt"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
)

func Example() {
	target, err := runtimes.Lookup("podman-4.3.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(target, "reads CDI up to", target.MaxCDI, "from", target.Dirs)

	spec := &specs.Spec{Version: "0.7.0", Kind: "rdma.dev/hca"}
	spec.ContainerEdits.AdditionalGIDs = []uint32{44}
	fmt.Println(target.Check(spec))
	// Output:
	// podman-4.3.1 reads CDI up to 0.5.0 from [/etc/cdi /var/run/cdi]
	// containerEdits: additionalGids needs CDI 0.7.0, and podman-4.3.1 reads up to 0.5.0
}
