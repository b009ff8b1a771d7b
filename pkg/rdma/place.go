package rdma

// Place is where a PCI function stands in the tree below /sys/devices.
type Place struct {
	// Address is the PCI address of the function.
	Address string
	// Root is the PCIe root complex, e.g. pci0000:15.
	Root string
	// Bridges is the chain of bridges from the root port down to the function.
	Bridges []string
}

// PlaceOf reads the place of a device from its path below /sys/devices, which is
// what a link of /sys/bus/pci/devices leads to. It reports whether a PCI function
// is on the path.
func PlaceOf(devicePath string) (Place, bool) {
	p := locate(devicePath)
	return Place{Address: p.address, Root: p.root, Bridges: p.bridges}, p.address != ""
}

// ComparePCIAddresses orders PCI addresses by their numbers, where an order by
// text would put domain 10000 before domain 2000. What is no PCI address comes
// first.
func ComparePCIAddresses(a, b string) int {
	x, _ := parsePCIAddress(a)
	y, _ := parsePCIAddress(b)
	return x.compare(y)
}
