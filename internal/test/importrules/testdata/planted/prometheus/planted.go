// Package planted breaks the rule "prometheus": it counts by itself.
package planted

import "github.com/prometheus/client_golang/prometheus"

var _ = prometheus.NewCounter
