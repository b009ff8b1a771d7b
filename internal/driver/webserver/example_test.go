package webserver_test

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/webserver"
)

func ExampleServer_Validate() {
	s := webserver.Server{Address: "9485"}
	fmt.Println(s.Validate())
	// Output: address "9485": address 9485: missing port in address; want host:port, such as 127.0.0.1:9485 or :9485
}
