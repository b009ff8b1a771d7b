// Package pcie reads how well a function's PCIe links work: rate and lanes of each link up to the root, and the errors
// that the kernel has counted (AER). It is a leaf: a function of a /sys.
package pcie

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const devices = "bus/pci/devices"

// Narrowest returns the narrowest link on the way from a function to the root, and the address of the device at its
// lower end. The path has the addresses of the function and of the bridges above it. Narrowest returns false if one
// link cannot be read: another one could then be the narrowest.
func Narrowest(sys fs.FS, path []string) (narrowest rdma.PCIeLink, at string, known bool) {
	for _, address := range path {
		l, ok := rdma.ReadPCIeLink(sys, devices+"/"+address, "current")
		if !ok {
			return rdma.PCIeLink{}, "", false
		}
		if at == "" || l.Capacity() < narrowest.Capacity() {
			narrowest, at = l, address
		}
	}
	return narrowest, at, at != ""
}

// The names of the sums of Errors.
const (
	Fatal       = "aer_fatal"
	Nonfatal    = "aer_nonfatal"
	Correctable = "aer_correctable"
)

// ofLinks are the errors that a link or a device makes (Documentation/ABI/testing/sysfs-bus-pci-devices-aer). The
// others, such as UnsupReq, CmpltTO and ACSViol, a program can cause with a wrong address, and a scan of the bus does.
var ofLinks = []string{"DLP", "SDES", "FCP", "RxOF", "MalfTLP", "ECRC", "UncorrIntErr"}

// Errors returns the sums of the errors that the kernel has counted for some functions and bridges. A sum without a
// file is absent. Firmware that keeps AER to itself has no files, or files with zeros.
func Errors(sys fs.FS, addresses ...string) map[string]uint64 {
	out := map[string]uint64{}
	for _, address := range addresses {
		for name, file := range map[string]string{
			Fatal: "aer_dev_fatal", Nonfatal: "aer_dev_nonfatal", Correctable: "aer_dev_correctable",
		} {
			content, err := fs.ReadFile(sys, path.Join(devices, address, file))
			if err != nil {
				continue
			}
			out[name] += sum(string(content), func(kind string) bool {
				return name == Correctable && !strings.HasPrefix(kind, "TOTAL") || slices.Contains(ofLinks, kind)
			})
		}
	}
	return out
}

// sum adds the numbers of the wanted lines of a file.
func sum(content string, wanted func(kind string) bool) (total uint64) {
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) != 2 || !wanted(fields[0]) {
			continue
		}
		if n, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
			total += n
		}
	}
	return total
}
