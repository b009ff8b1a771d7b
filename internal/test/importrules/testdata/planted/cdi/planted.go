// Package planted breaks the rule "cdi": it knows Kubernetes, and a package of this module that it should not.
package planted

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

var _ = []any{types.UID(""), atomicfile.Write, topology.Matrix{}}
