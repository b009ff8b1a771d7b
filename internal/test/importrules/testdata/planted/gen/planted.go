// Package planted breaks the rule "gen": it imports from above or beside.
package planted

import _ "github.com/rdma-dev/dra-driver-rdma/internal/kube/deviceinfo"
