// Package planted breaks the rule "offer": it reports by itself.
package planted

import "github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"

var _ = report.NewRecorder
