// Package planted breaks the rule "inspect-fabric": a picture reads the API server.
package planted

import _ "github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
