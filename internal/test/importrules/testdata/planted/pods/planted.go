// Package planted breaks the rule "pods": it reports by itself.
package planted

import "github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"

var _ = report.NewRecorder
