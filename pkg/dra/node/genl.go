package node

import (
	"io/fs"
	"path"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/flock"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/counters"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/genl"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Genl asks the kernel what no file says of an HCA. [genl.Kernel] implements it. It is called by several goroutines.
type Genl interface {
	Reporters(bus, device string, names ...string) ([]genl.Reporter, error)
	FECUncorrectable(netdev string) (*uint64, error)
	SymbolErrors(netdev string) (*uint64, error)
	NoCable(netdev string) (bool, error)
	Software(ibdev string) (*rdma.Software, error)
}

// genlTime is how long a reading waits for the kernel's answers. A driver that recovers a card keeps its lock for up to
// minutes, and no signal and no timeout of a socket ends a question that waits for it.
const genlTime = 2 * time.Second

// asker asks Genl about cards, each in a goroutine of its own, so that a card that does not answer delays no other. A
// card is not asked again before it has answered.
type asker struct {
	genl  Genl // nil for nobody
	sys   fs.ReadLinkFS
	asked flock.Names // cards that have not answered yet
}

// told is what the kernel has told of a card. What is not known is absent.
type told struct {
	device    string // rdma.HCA.Name
	reporters []health.Reporter
	answered  bool // reporters are known
	ports     map[int]portTold
}

type portTold struct {
	counters map[string]uint64
	noCable  bool
}

// ask asks about all cards, and adds the answers to the readings. It returns the firmware's health reporters by HCA.
func (a *asker) ask(snap *rdma.Snapshot, readings map[health.PortID]health.Reading) map[string][]health.Reporter {
	if a.genl == nil {
		return nil
	}
	answers := make(chan told, len(snap.HCAs))
	asked := 0
	for _, h := range snap.Usable() {
		if h.Function == rdma.VF || h.Function == rdma.SF {
			continue
		}
		unlock, err := a.asked.Lock(flock.NoWait, h.Name)
		if err != nil {
			continue
		}
		asked++
		go func() {
			defer unlock()
			answers <- a.askOne(h)
		}()
	}
	firmware := map[string][]health.Reporter{}
	late := time.NewTimer(genlTime)
	defer late.Stop()
	for range asked {
		select {
		case one := <-answers:
			one.addTo(readings, firmware)
		case <-late.C:
			return firmware // the others are not known
		}
	}
	return firmware
}

// addTo adds the answers to the readings of a poll.
func (t told) addTo(readings map[health.PortID]health.Reading, firmware map[string][]health.Reporter) {
	if t.answered {
		firmware[t.device] = t.reporters
	}
	for number, port := range t.ports {
		id := health.PortID{Device: t.device, Port: number}
		r, ok := readings[id]
		if !ok {
			continue
		}
		r.NoCable = port.noCable
		for name, n := range port.counters {
			r.Counters[name] = n
		}
		readings[id] = r
	}
}

// askOne asks about one card. What the kernel does not answer is not known.
func (a *asker) askOne(h *rdma.HCA) told {
	t := told{device: h.Name, ports: map[int]portTold{}}
	if bus, device, ok := a.devlink(h); ok {
		reporters, err := a.genl.Reporters(bus, device, health.Reporters()...)
		t.answered = err == nil
		for _, r := range reporters {
			t.reporters = append(t.reporters, health.Reporter(r))
		}
	}
	for p := range h.OwnPorts() {
		if p.LinkLayer == rdma.LinkEthernet && p.Netdev != "" {
			t.ports[p.Number] = a.askPort(p)
		}
	}
	return t
}

// askPort asks about an Ethernet port: for the errors of a link that is up, and for the cable of one that is down.
func (a *asker) askPort(p *rdma.Port) (t portTold) {
	if p.State != rdma.PortActive {
		none, err := a.genl.NoCable(p.Netdev)
		t.noCable = err == nil && none && a.neverUp(p.Netdev)
		return t
	}
	t.counters = map[string]uint64{}
	for name, count := range map[string]func(string) (*uint64, error){
		health.FECUncorrectable: a.genl.FECUncorrectable, health.PHYSymbolErrors: a.genl.SymbolErrors,
	} {
		if n, err := count(p.Netdev); err == nil && n != nil {
			t.counters[name] = *n
		}
	}
	return t
}

// neverUp reports whether an interface has never had a link since it was made (carrier_up_count,
// Documentation/ABI/testing/sysfs-class-net).
func (a *asker) neverUp(netdev string) bool {
	n, ok := counters.ReadNetdev(a.sys, netdev, "carrier_up_count")
	return ok && n == 0
}

// devlink returns how devlink calls the device of an HCA: the PCI function, or what is below the interface of a
// software device.
func (a *asker) devlink(h *rdma.HCA) (bus, device string, ok bool) {
	if h.PCI != nil {
		return "pci", h.PCI.Address, true
	}
	p := h.Port1()
	if p == nil || p.Netdev == "" {
		return "", "", false
	}
	link := path.Join("class/net", p.Netdev, "device")
	target, err := a.sys.ReadLink(link)
	if err != nil {
		return "", "", false
	}
	subsystem, err := a.sys.ReadLink(path.Join(link, "subsystem"))
	if err != nil {
		return "", "", false
	}
	return path.Base(subsystem), path.Base(target), true
}
