package health

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Wiring is the other end of a port's cable, in words for people: as the wiring plan of the site has it, and as it is
// seen.
type Wiring struct {
	Planned, Seen string
	// Differs says that they are not the same.
	Differs bool
}

// hasWiring reports whether there is a wiring of an HCA's port.
func (o *Observation) hasWiring(h *rdma.HCA) bool {
	for i := range h.Ports {
		if _, ok := o.Wiring[PortID{h.Name, h.Ports[i].Number}]; ok {
			return true
		}
	}
	return false
}

// judgeWiring compares the plan of a port with what is seen.
func judgeWiring(id PortID, wiring map[PortID]Wiring) judgement {
	w, ok := wiring[id]
	if !ok {
		return judgement{probe{Miswired, id.Port}, unknown, ""}
	}
	return judge(w.Differs, Miswired, id.Port, fmt.Sprintf("port %d is connected to %s, and the wiring plan says %s: "+
		"correct the cable or the plan", id.Port, w.Seen, w.Planned))
}
