package exitcode_test

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
)

func ExampleList() {
	codes := exitcode.List{0: "done", 10: "doctor: there are warnings"}
	fmt.Print(codes.Help())
	// Output:
	// Exit codes:
	//   0  done
	//  10  doctor: there are warnings
}
