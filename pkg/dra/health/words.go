package health

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// maxMessage is how long the kubelet's API lets a message be
// (k8s.io/kubelet/pkg/apis/dra-health/v1).
const maxMessage = 1024

// physical explains the kernel's physical states of a link
// (drivers/infiniband/core/sysfs.c phys_state_show; IBTA, PortPhysicalState).
var physical = map[string]string{
	"Sleep":                     "the link sleeps",
	"Polling":                   "nothing answers: no cable, or the other end is off",
	"Disabled":                  "the link is switched off on this side",
	"PortConfigurationTraining": "the link is being negotiated",
	"LinkErrorRecovery":         "the link recovers from errors: a bad cable or transceiver",
	"Phy Test":                  "the link is in a test mode",
}

// explain returns why a port is not ACTIVE, and the remedy.
func explain(p *rdma.Port, r Reading) string {
	text := fmt.Sprintf("port %d is %s", p.Number, p.State)
	if p.PhysState != "" {
		text += fmt.Sprintf(" (%s)", p.PhysState)
	}
	if r.NoCable {
		return text + ": it has no cable, and never had a link since the host has started"
	}
	if why := reason(p); why != "" {
		text += ": " + why
	}
	return text
}

func reason(p *rdma.Port) string {
	switch {
	case p.State == rdma.PortInit && p.PhysState == "LinkUp" && p.LinkLayer != rdma.LinkEthernet:
		return "the link is up, but no subnet manager has configured it"
	case p.State == rdma.PortArmed:
		return "the subnet manager has configured the link and not activated it"
	case p.State == rdma.PortActiveDefer:
		return "the link failed a moment ago"
	case p.LinkLayer == rdma.LinkEthernet && p.Netdev != "":
		return fmt.Sprintf("interface %s is down or has no carrier: ip link set %s up, or look at the cable",
			text.Terminal(p.Netdev), text.Shell(p.Netdev))
	case p.LinkLayer == rdma.LinkEthernet:
		return "its interface is not in the host's network namespace: a pod may have it, and may have taken the link down"
	}
	return physical[p.PhysState]
}

// span formats a duration in a short form: 1h, not 1h0m0s.
func span(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// Cut shortens a message to the limit of the kubelet's API.
func Cut(message string) string {
	const dots = "..."
	if len(message) <= maxMessage {
		return message
	}
	end := maxMessage - len(dots)
	for !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + dots
}
