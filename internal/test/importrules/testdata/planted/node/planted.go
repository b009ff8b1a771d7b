// Package planted breaks the rule "node": it asks for claims.
package planted

import "github.com/rdma-dev/dra-driver-rdma/pkg/dra/claims"

var _ = claims.New
