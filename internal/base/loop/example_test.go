package loop_test

import (
	"errors"
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

func ExampleErrors() {
	var failed loop.Errors
	away, denied := errors.New("the server is away"), errors.New("the server says no")
	for _, err := range []error{away, away, denied, nil, denied} {
		if failed.IsNew("server", err) {
			fmt.Println(err)
		}
	}
	// Output:
	// the server is away
	// the server says no
	// the server says no
}
