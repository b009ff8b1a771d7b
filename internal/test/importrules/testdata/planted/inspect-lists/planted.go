// Package planted breaks the rule "inspect-lists": a list reads the API server.
package planted

import _ "github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
