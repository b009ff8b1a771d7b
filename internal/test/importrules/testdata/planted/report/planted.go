// Package planted breaks the rule "report": it opens the records of claims.
package planted

import "github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"

var _ = claimstore.Open
