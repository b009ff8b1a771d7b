// Package planted breaks the rule "kubectl-rdma": it links what writes files.
package planted

import "github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"

var _ = atomicfile.Write
