// Package planted breaks the rule "downward": it asks the Kubernetes side.
package planted

import "github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"

var _ = resources.Attributes
