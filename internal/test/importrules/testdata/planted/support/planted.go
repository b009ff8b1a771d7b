// Package planted breaks the rule "support": it imports from above or beside.
package planted

import _ "github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
