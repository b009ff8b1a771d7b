// Package planted breaks the rule "api": it knows how specs are made.
package planted

import (
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var _ = []any{cdi.KindHCA, rdma.ClassVerbs}
