package nodestatus

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// ago formats the time between then and at as kubectl does.
func ago(at, then time.Time) string { return duration.HumanDuration(at.Sub(then)) }

func rate(mbps int) string {
	if mbps == 0 {
		return ""
	}
	return fmt.Sprintf("%g Gb/s", float64(mbps)/1000)
}

// words are the state and the rate of a port.
func (p Port) words() string {
	words := strings.TrimSpace(p.State + " " + rate(p.RateMbps))
	if p.PCIeMbps > 0 {
		words += ", PCIe " + rate(p.PCIeMbps)
	}
	return words
}

// Summary returns the status in one line.
func (s *Status) Summary() string {
	parts := []string{text.Count(len(s.HCAs), "HCA"), text.Count(len(s.Claims), "prepared claim")}
	unhealthy := 0
	for _, h := range s.HCAs {
		if h.Health != "" && h.Health != "Healthy" {
			unhealthy++
		}
	}
	if unhealthy > 0 {
		parts = append(parts, fmt.Sprintf("%d not healthy", unhealthy))
	}
	if n := len(s.Problems); n > 0 {
		parts = append(parts, text.Count(n, "problem"))
	}
	return strings.Join(parts, ", ")
}
