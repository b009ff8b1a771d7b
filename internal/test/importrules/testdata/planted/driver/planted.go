// Package planted breaks the rule "driver": it imports from above or beside.
package planted

import _ "github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
