// Package planted breaks the rule "rdma": it logs, opens files itself, and links the CDI library by way of pkg/cdi.
package planted

import (
	"log"
	"os"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

func read() {
	_, err := os.ReadFile(cdi.StaticDir)
	log.Print(err)
}
