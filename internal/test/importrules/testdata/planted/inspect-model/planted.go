// Package planted breaks the rule "inspect-model": the model asks why.
package planted

import _ "github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
