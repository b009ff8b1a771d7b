package rdma

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
)

// Values of HCA.Purpose. Others are the card's own words, and say nothing about who may use the HCA.
const (
	// PurposeSwitchManager is a function that manages the NVSwitches of a GPU board, for the fabric manager.
	PurposeSwitchManager = "SW_MNG"
	// PurposeUnread is a function whose VPD was not read yet. No container gets it until it is.
	PurposeUnread = "unread"
	// PurposeUnknown is a function whose VPD cannot be read. It counts as a network HCA.
	PurposeUnknown = "unknown"
)

const (
	busPCIDevices  = "bus/pci/devices"
	vendorMellanox = "15b3"
	// deviceDMA is the DMA function of a card with Data Direct (drivers/infiniband/hw/mlx5/data_direct.c). It has no HCA.
	deviceDMA = "2100"
)

// vpdDevices are the Mellanox functions whose VPD is read, and whether such a card can have a DMA function: ConnectX-7,
// ConnectX-8, ConnectX-9 and BlueField-3 (rdma-core, kernel-boot/rdma_topo). Nobody pays for the VPD of others.
var vpdDevices = map[string]bool{"1021": false, "1023": true, "1025": true, "a2dc": false}

// boards knows what is written on the cards of a host: it relates functions of a card that the PCIe tree separates,
// and tells managers from network HCAs. It keeps what it has read until the function is gone: a read is slow, and the
// kernel logs a warning for each one on some cards.
type boards struct {
	vpd    map[string]VPD          // by address of the PCI function
	unread map[string]string       // files of VPD, by address of the PCI function
	others map[string]*PCIFunction // functions without an HCA by address: DMA functions, nil for all others
}

// vpdFunction returns the address of the PCI function whose VPD describes the HCA's card, "" for software.
func (h *HCA) vpdFunction() string {
	switch {
	case h.PCI == nil || h.Function == Virtual:
		return ""
	case h.PF != "":
		return h.PF
	}
	return h.PCI.Address
}

// NeedsVPD reports whether the VPD of a PCI function with these IDs is read.
func NeedsVPD(vendor, device string) bool {
	_, ok := vpdDevices[device]
	return vendor == vendorMellanox && (ok || device == deviceDMA)
}

// hasVPD reports whether the HCA is on a function whose VPD is read.
func (h *HCA) hasVPD() bool {
	return h.Function == PF && h.PCI != nil && NeedsVPD(h.PCI.Vendor, h.PCI.Device)
}

// note notes that the VPD of a function has to be read, once. A missing file is a function without VPD.
func (b *boards) note(sys fs.FS, address, dir string) {
	if _, known := b.vpd[address]; known {
		return
	}
	file := dir + "/vpd"
	if _, err := fs.Stat(sys, file); errors.Is(err, fs.ErrNotExist) {
		b.vpd[address] = VPD{}
		return
	}
	b.unread[address] = file
}

// forget drops what is known of a function that has gone: another card may come to its place.
func (b *boards) forget(sys fs.FS, address string) {
	_, known := b.vpd[address]
	_, noted := b.unread[address]
	if !known && !noted {
		return
	}
	if _, err := fs.Stat(sys, busPCIDevices+"/"+address); errors.Is(err, fs.ErrNotExist) {
		delete(b.vpd, address)
		delete(b.unread, address)
	}
}

// findDMA looks for DMA functions among the PCI functions without an HCA. It reads the ID of each one once.
func (b *boards) findDMA(sys fs.ReadLinkFS, withHCA Names) {
	r := &reader{sys: sys}
	present := NamesOf(r.list(busPCIDevices)...)
	maps.DeleteFunc(b.others, func(address string, _ *PCIFunction) bool {
		return !present.Has(address) || withHCA.Has(address)
	})
	for address := range present {
		dir := path.Join(busPCIDevices, address)
		if _, known := b.others[address]; known || withHCA.Has(address) {
			continue
		}
		b.others[address] = nil
		device, _ := parsePCIID(r.optional(dir + "/device"))
		if device != deviceDMA {
			continue
		}
		vendor, _ := parsePCIID(r.optional(dir + "/vendor"))
		target, err := sys.ReadLink(dir)
		where := PlaceOf(target)
		if vendor != vendorMellanox || err != nil || where.Address != address {
			continue
		}
		b.others[address] = &PCIFunction{
			Address: address, Vendor: vendor, Device: device, Root: where.Root, Bridges: where.Bridges,
			NUMANode: parsed(r, dir+"/numa_node", number),
		}
		b.note(sys, address, dir)
	}
}

// dma returns the DMA function of a card. It returns nil if there is none, and if several functions have the UUID of
// the card: it is unknown then which of them moves the data of an HCA.
func (b *boards) dma(card string) *PCIFunction {
	if card == "" {
		return nil
	}
	var found *PCIFunction
	for address, f := range b.others {
		if f == nil || b.vpd[address].Card != card {
			continue
		}
		if found != nil {
			return nil
		}
		found = f
	}
	return found
}

// describe sets what an HCA has of its card.
func (b *boards) describe(c *card) {
	h := &c.hca
	vpd := b.vpd[h.vpdFunction()]
	h.DataDirect, h.Purpose = b.dma(vpd.Card), ""
	if !h.hasVPD() {
		return
	}
	h.Purpose = vpd.Purpose
	switch _, unread := b.unread[h.PCI.Address]; {
	case unread:
		h.Purpose = PurposeUnread
	case vpd.Problem != "":
		h.Purpose = PurposeUnknown
	}
}

// problems lists the functions whose VPD cannot be read, in order of address.
func (b *boards) problems() []string {
	var out []string
	for _, address := range slices.SortedFunc(maps.Keys(b.vpd), ComparePCIAddresses) {
		if p := b.vpd[address].Problem; p != "" {
			out = append(out, address+": "+p)
		}
	}
	return out
}

// describe sets what the HCAs that were read have of their cards.
func (p *pass) describe(read []*card) {
	for _, c := range read {
		if c != nil && c.exists() && c.hca.hasVPD() {
			p.boards.note(p.sys, c.hca.PCI.Address, PlaceOf(c.parent).dir)
		}
	}
	for _, c := range read {
		if c != nil && c.exists() {
			p.boards.describe(c)
		}
	}
}

// lookForDMA finds the DMA functions of a host that has a card with Data Direct, and forgets functions that have gone.
func (s *Scanner) lookForDMA() {
	withHCA, possible := Names{}, false
	for _, c := range s.cards {
		withHCA.Add(c.hca.vpdFunction())
		if p := c.hca.PCI; p != nil {
			withHCA.Add(p.Address)
			possible = possible || c.hca.hasVPD() && vpdDevices[p.Device]
		}
	}
	if possible {
		s.boards.findDMA(s.sys, withHCA)
	}
	read, unread := slices.Collect(maps.Keys(s.boards.vpd)), slices.Collect(maps.Keys(s.boards.unread))
	for _, address := range slices.Concat(read, unread) {
		if !withHCA.Has(address) {
			s.boards.forget(s.sys, address)
		}
	}
}

// UnreadVPD returns the files of VPD that have to be read, by PCI address. Scan and Update only note them, because a
// card may take seconds to answer. The caller gives them to [ReadVPD], and its result to [Scanner.Learn].
func (s *Scanner) UnreadVPD() map[string]string { return maps.Clone(s.boards.unread) }

// VPD returns what is known of the cards of a host, by PCI address. It is for another Scanner of the same boot.
func (s *Scanner) VPD() map[string]VPD { return maps.Clone(s.boards.vpd) }

// Learn adds what [ReadVPD] returned, or what VPD of another Scanner did, and returns the snapshot with it. It reads
// nothing. Before the first Scan it returns nil.
func (s *Scanner) Learn(vpd map[string]VPD) *Snapshot {
	maps.Copy(s.boards.vpd, vpd)
	for address := range vpd {
		delete(s.boards.unread, address)
	}
	if s.snap == nil {
		return nil
	}
	p := newPass(s)
	for _, c := range s.cards {
		if c.exists() {
			s.boards.describe(c)
			p.slots.Add(c.slot)
		}
	}
	p.identify()
	return p.publish()
}
