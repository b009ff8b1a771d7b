// Command planted links what rdma-hook must not: it proves that the check of
// its imports finds a package of another module and a banned standard package.
package main

import (
	_ "net/http"

	_ "sigs.k8s.io/yaml"
)

func main() {}
