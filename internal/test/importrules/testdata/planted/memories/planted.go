// Package planted breaks the rule "memories": it keeps a file of its own.
package planted

import "github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"

var use = atomicfile.Write
