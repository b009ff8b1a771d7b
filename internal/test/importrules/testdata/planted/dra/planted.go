// Package planted breaks the rule "dra": it imports from above or beside.
package planted

import _ "github.com/rdma-dev/dra-driver-rdma/internal/cdigen/doctor"
