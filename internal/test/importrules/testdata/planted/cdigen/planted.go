// Package planted breaks the rule "cdigen": it imports from above or beside.
package planted

import _ "github.com/rdma-dev/dra-driver-rdma/internal/driver/deviceinfo"
