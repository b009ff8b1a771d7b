// Command planted breaks the rule "rdma-hook": it links a YAML library and an HTTP server.
package main

import (
	_ "net/http"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

func main() { _, _ = yaml.Marshal([]any{unix.EINVAL, args.Unlimited}) }
