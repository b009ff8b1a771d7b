package statuspage

import (
	"fmt"
	"strings"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// ago formats the time between then and at in a short form.
func ago(at, then time.Time) string {
	d := at.Sub(then)
	switch {
	case d < time.Second:
		return "now"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func rate(mbps int) string {
	if mbps == 0 {
		return ""
	}
	return fmt.Sprintf("%g Gb/s", float64(mbps)/1000)
}

// unhealthy counts the HCAs whose status for the kubelet is not Healthy.
func (p *Page) unhealthy() int {
	n := 0
	for _, h := range p.HCAs {
		if h.Health != "" && h.Health != "Healthy" {
			n++
		}
	}
	return n
}

// Summary returns the page in one line.
func (p *Page) Summary() string {
	parts := []string{text.Count(len(p.HCAs), "HCA"), text.Count(len(p.Claims), "prepared claim")}
	if n := p.unhealthy(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d not healthy", n))
	}
	if n := len(p.Problems); n > 0 {
		parts = append(parts, text.Count(n, "problem"))
	}
	return strings.Join(parts, ", ")
}
