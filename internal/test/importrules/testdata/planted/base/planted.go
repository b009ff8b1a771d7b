// Package planted breaks the rule "base": it imports from above or beside.
package planted

import _ "github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
