package v1alpha1_test

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

func ExampleDecode() {
	obj, err := v1alpha1.Decode([]byte(`{"apiVersion": "rdma.dev/v1alpha1", "kind": "HCAConfig", "memlock": "4Gi"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, err := obj.(*v1alpha1.HCAConfig).Memlock.Bytes()
	fmt.Println(limit, err)

	_, err = v1alpha1.Decode([]byte(`{"apiVersion": "rdma.dev/v1alpha1", "kind": "HCAConfig", "memlok": "4Gi"}`))
	fmt.Println(err)
	// Output:
	// 4294967296 <nil>
	// strict decoding error: unknown field "memlok"
}
