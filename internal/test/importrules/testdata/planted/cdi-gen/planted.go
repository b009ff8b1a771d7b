// Command planted breaks the rule "cdi-gen": it links Kubernetes by way of another package. sigs.k8s.io/yaml is free.
package main

import (
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/importrules/testdata/planted/cdi-gen/deep"
)

func main() { _, _ = yaml.Marshal(deep.UID("")) }
