// Package planted breaks the rule "claims": it asks what is published.
package planted

import "github.com/rdma-dev/dra-driver-rdma/pkg/dra/offer"

var _ = offer.New
