// Package planted breaks the rule "inspect-why": it imports a list.
package planted

import _ "github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
