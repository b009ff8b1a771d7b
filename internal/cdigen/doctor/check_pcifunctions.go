package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The kinds of findings, with their looks.
var (
	driverMissing = catalogue.Kind("driver-missing", pciFunctionsRead, moduleTables)
	hcaLost       = catalogue.Kind("hca-lost", pciFunctionsRead, moduleTables)
	noHCA         = catalogue.Kind("no-hca", classInfiniband)
)

// checkFunctions finds functions that lost their RDMA device, and hosts without any RDMA device.
func checkFunctions(f *facts, out *findings) {
	s := &functions{host: f.host, snap: f.snap, modules: f.modules, pci: f.pci}
	losses := s.losses()
	out.add(lossFindings(losses)...)
	f.host.sysList("class/infiniband")
	if len(losses) == 0 && len(f.snap.HCAs) == 0 && !f.host.unseen.has(classInfiniband) {
		out.add(s.noHCA())
	}
	if f.modules.unknown != nil {
		f.host.unseen["PCI functions without an RDMA device"] = f.modules.unknown
	}
}

// loss is a function that lacks its RDMA device.
type loss struct {
	subject string // PCI address, or the name of an SF
	cause   cause
	module  string // RDMA driver, "" if unknown
	device  string // auxiliary device, for auxUnbound
	certain bool   // the function can do RDMA: its class or an alias of an RDMA driver says so
	severe  bool   // and it has no other use
}

// cause says why a function lacks its RDMA device.
type cause int

const (
	notLoaded  cause = iota // the kernel has not loaded the RDMA driver
	unbound                 // no driver holds the PCI function
	auxUnbound              // the RDMA driver is loaded, and does not hold the auxiliary device
	noDevice                // the driver holds the function, and there is no RDMA device
)

// functions finds PCI functions that lack their RDMA device, and what may be the hardware of a host without any.
type functions struct {
	host    *reader
	snap    *rdma.Snapshot
	modules *modules
	pci     []pciFunction
	settled map[string]bool   // addresses with an RDMA device, or an auxiliary device for one: judge skips them
	alike   map[string]string // driver of functions with an RDMA device, by vendor and device ID
	busy    map[string]bool   // of these drivers, those whose functions list interrupts
}

// losses lists the functions that lack an RDMA device. sysfs and the kernel's own tables decide, no list of IDs. A
// function in doubt is not listed: the second port of a bond and a function with RDMA switched off look the same.
func (s *functions) losses() []loss {
	s.settled, s.alike, s.busy = map[string]bool{}, map[string]string{}, map[string]bool{}
	for i := range s.snap.HCAs {
		h := &s.snap.HCAs[i]
		if h.PCI != nil && h.Function != rdma.SF {
			s.settled[h.PCI.Address] = true
		}
		if h.DataDirect != nil {
			s.settled[h.DataDirect.Address] = true // its HCA is that of the PF
		}
	}
	for i := range s.pci {
		p := &s.pci[i]
		if s.settled[p.address] || s.host.sysHas(p.dir()+"/infiniband") {
			driver := driverOf(s.host.Sys, p.dir())
			s.settled[p.address] = true
			s.alike[p.vendor+p.device] = driver
			s.busy[driver] = s.busy[driver] || s.interrupts(p)
		}
	}
	list := s.auxiliary() // it adds to settled what has no RDMA device, and so says nothing of alike and busy
	for i := range s.pci {
		p := &s.pci[i]
		if s.settled[p.address] {
			continue
		}
		if l, lost := s.judge(p); lost {
			list = append(list, l)
		}
	}
	return list
}

func (s *functions) isVF(p *pciFunction) bool {
	_, err := s.host.Sys.ReadLink(p.dir() + "/physfn")
	return err == nil
}

// interrupts reports whether a function has message-signalled interrupts. A driver that gave up has freed them.
func (s *functions) interrupts(p *pciFunction) bool {
	entries, err := fs.ReadDir(s.host.Sys, p.dir()+"/msi_irqs")
	return err == nil && len(entries) > 0
}

// auxiliary lists the auxiliary devices that no RDMA driver holds, although one should. A device that a driver holds
// may lack an RDMA device of its own: two ports can share one.
func (s *functions) auxiliary() []loss {
	var list []loss
	const dir = "bus/auxiliary/devices"
	for _, e := range s.host.sysList(dir) {
		match := strings.TrimSuffix(e.Name(), path.Ext(e.Name())) // mlx5_core.rdma.2, as auxiliary_bus does
		module := s.modules.aux[match]
		if module == "" {
			continue
		}
		target, err := s.host.Sys.ReadLink(path.Join(dir, e.Name()))
		if err != nil {
			continue // it has gone
		}
		owner := path.Base(path.Dir(target))
		s.settled[owner] = true
		if driverOf(s.host.Sys, path.Join(dir, e.Name())) != "" {
			continue
		}
		l := loss{subject: owner, cause: auxUnbound, module: module, device: e.Name()}
		if !s.loaded(module) {
			l.cause = notLoaded
		}
		l.severe = slices.ContainsFunc(s.pci, func(p pciFunction) bool { return p.address == owner && p.infiniBand() })
		list = append(list, l)
	}
	return list
}

func (s *functions) loaded(module string) bool { return !s.host.sysLacks("module/" + module) }

// judge returns the loss of a function without an RDMA device, if it must have one.
func (s *functions) judge(p *pciFunction) (l loss, lost bool) {
	candidates := s.modules.of(p.modalias)
	l = loss{subject: p.address, module: s.modules.creator(candidates, p.infiniBand())}
	direct := slices.Contains(candidates, l.module)
	l.certain = p.infiniBand() || direct
	l.severe = p.infiniBand() || direct && len(candidates) == 1
	if driver := driverOf(s.host.Sys, p.dir()); driver != "" {
		l.cause, lost = s.withDriver(p, driver, l, candidates)
	} else {
		l.cause, lost = s.withoutDriver(p, l.module)
	}
	return l, lost
}

// withoutDriver judges a function that no driver holds. VFs may wait for a virtual machine.
func (s *functions) withoutDriver(p *pciFunction, module string) (cause, bool) {
	twin := s.alike[p.vendor+p.device] != ""
	known := module != "" || twin || s.modules.unknown != nil && p.infiniBand()
	if !known || s.isVF(p) {
		return 0, false
	}
	if twin || module != "" && s.loaded(module) {
		return unbound, true
	}
	return notLoaded, true
}

// withDriver judges a function that a driver holds. In exclusive mode its RDMA device may be in a container.
func (s *functions) withDriver(p *pciFunction, driver string, l loss, candidates []string) (cause, bool) {
	twin := s.alike[p.vendor+p.device] == driver
	own := slices.Contains(candidates, driver) || s.modules.unknown != nil && twin // not vfio-pci
	switch {
	case !own || s.snap.NetnsMode == rdma.NetnsExclusive || s.bonded(p):
		return 0, false
	case l.certain && !s.isVF(p):
		if l.module != "" && !s.loaded(l.module) && l.module != driver {
			return notLoaded, true
		}
		byAux := !slices.Contains(candidates, l.module)
		return noDevice, !byAux || !s.interrupts(p) // with interrupts, the driver works, and RDMA is off by devlink
	}
	return noDevice, twin && s.busy[driver] && !s.interrupts(p)
}

// bonded reports whether a network interface of a function belongs to a bond.
func (s *functions) bonded(p *pciFunction) bool {
	entries, err := fs.ReadDir(s.host.Sys, p.dir()+"/net")
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return s.host.sysHas(path.Join(p.dir(), "net", e.Name(), "bonding_slave"))
	})
}

// lossFindings has a finding for each cause and driver.
func lossFindings(losses []loss) (list []finding.Finding) {
	for len(losses) > 0 {
		first := losses[0]
		same := func(l loss) bool {
			return l.cause == first.cause && l.module == first.module && l.severe == first.severe
		}
		var group []loss
		for _, l := range losses {
			if same(l) {
				group = append(group, l)
			}
		}
		losses = slices.DeleteFunc(losses, same)
		list = append(list, lossFinding(group))
	}
	return list
}

// lossFinding is the finding for functions with the same cause and driver.
func lossFinding(group []loss) finding.Finding {
	first := group[0]
	kind, severity := hcaLost, finding.Warning
	if first.cause == notLoaded {
		kind = driverMissing
	}
	if first.severe {
		severity = finding.Error
	}
	var subjects []string
	for _, l := range group {
		subjects = append(subjects, l.subject)
	}
	address := text.Shell(first.subject)
	log := "dmesg | grep -F " + address
	f := foundIn(unique(subjects), kind, severity, "function", " without an RDMA device")
	switch first.cause {
	case notLoaded:
		if first.module == "" {
			return f.Because("no driver holds the function, and it has no other use than RDMA").
				Do("modprobe \"$(cat " + text.Shell("/sys/"+pciDevices+"/"+first.subject+"/modalias") + ")\"").See(log)
		}
		return f.Because("the driver %s creates the RDMA device; it is not loaded", first.module).
			Do("modprobe " + text.Shell(first.module)).See("dmesg | grep -F " + text.Shell(first.module))
	case unbound:
		return f.Because("no driver holds the function, although the driver is loaded: the driver rejected the " +
			"function, or somebody unbound it").
			Do("echo " + address + " > /sys/bus/pci/drivers_probe").See(log)
	case auxUnbound:
		return f.Because("the driver %s is loaded, and does not hold %s: it rejected the device, or somebody unbound it",
			first.module, first.device).
			Do("echo " + text.Shell(first.device) + " > /sys/bus/auxiliary/drivers_probe").See(log)
	}
	return f.Because("the driver holds the function, but there is no RDMA device: the driver gave up after an error of " +
		"firmware or hardware").
		See(log).Do(fmt.Sprintf("echo %[1]s > %[2]s && echo %[1]s > /sys/bus/pci/drivers_probe", address,
		text.Shell("/sys/"+pciDevices+"/"+first.subject+"/driver/unbind")))
}

// noHCA says that there is no RDMA device, and what is known of the hardware.
func (s *functions) noHCA() finding.Finding {
	reason := "no PCI or auxiliary device belongs to an RDMA driver of this kernel. Hardware whose driver the kernel " +
		"lacks is not seen"
	var fix []string
	if s.modules.unknown != nil {
		reason = fmt.Sprintf("whether the host has RDMA hardware is not known: %v", s.modules.unknown)
	} else if s.host.unseen.has(pciFunctionsRead) {
		reason = "whether the host has RDMA hardware is not known: its PCI functions cannot be read"
	} else if address, module := s.maybeHCA(); module != "" {
		reason = fmt.Sprintf("whether %s can do RDMA is not known: the module %s for its driver is not loaded", address,
			module)
		fix = []string{"modprobe " + text.Shell(module)}
	}
	return noHCA.Found(finding.Warning, "/sys/class/infiniband has no RDMA device").
		Because("%s. For tests without hardware, the kernel's soft-RoCE (rdma_rxe) or soft-iWARP (siw) adds an RDMA device "+
			"to a network interface", reason).
		Do(append(fix, "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev "+text.Shell(s.anyNetdev()))...)
}

// maybeHCA returns a function whose driver has an RDMA driver beside it that is not loaded. Drivers with auxiliary
// devices are left out: they say themselves whether a function can do RDMA.
func (s *functions) maybeHCA() (address, module string) {
	for _, p := range s.pci {
		driver := driverOf(s.host.Sys, p.dir())
		if !strings.HasPrefix(p.class, classNetwork) || driver == "" || s.modules.byAux(driver) != "" {
			continue
		}
		for _, module := range s.modules.users[driver] {
			if s.host.sysLacks("module/" + module) {
				return p.address, module
			}
		}
	}
	return "", ""
}

// anyNetdev returns a network interface of real hardware, or a placeholder.
func (s *functions) anyNetdev() string {
	for _, e := range s.host.sysList("class/net") {
		if s.host.sysHas("class/net/" + e.Name() + "/device") {
			return e.Name()
		}
	}
	return "NETDEV"
}
