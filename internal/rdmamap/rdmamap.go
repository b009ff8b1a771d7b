// Package rdmamap is a second opinion on what a host's RDMA devices are: it wraps github.com/Mellanox/rdmamap, which
// other device plugins and CNIs use, for the lookups in which it is right.
//
// Use it for single lookups, at Prepare time, and to check our own index (package pkg/rdma) in tests and in doctor. Do
// not use it to scan a host: it reads every class directory again for every device.
//
// What the wrapper adds to the library (v1.2.0):
//
//   - Its roots are package variables. [Open] fixes one host root for the process, and all calls are serialised.
//   - It answers an unreadable directory, a device that does not exist and a device without RDMA alike, with nil. Here
//     they are an error, an error with fs.ErrNotExist, and an empty result.
//   - Its results have the order of the directory; here they are sorted, without duplicates.
//   - It panics on files that it does not expect to be empty; here that is an error.
//   - Paths of nodes are those of the host, whatever the host root.
//
// What it leaves as it is: the character devices of an RDMA device always include umad, issm and the global rdma_cm; a
// node whose ibdev file cannot be read is left out in silence; class directories must hold links, as sysfs has them.
// Its lookups by netdev need netlink, compare names without network namespaces and miss IPoIB, and are not offered.
package rdmamap

import (
	"fmt"
	"sync"

	"github.com/rdma-dev/dra-driver-rdma/internal/rdmamap/internal/wrap"
)

// Map answers lookups on one host: Devices, DevicesForPCI, DevicesForAux and CharDevices. It may be used by several
// goroutines.
type Map = wrap.Map

var (
	mu     sync.Mutex
	opened *Map
)

// Open returns the map of the host whose /sys and /dev are below hostRoot ("/" on the host itself). A process has one:
// opening the same root again gives the same map, another root is an error.
func Open(hostRoot string) (*Map, error) {
	m, err := wrap.New(hostRoot)
	if err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	if opened == nil {
		opened = m
	}
	if opened.Root() != m.Root() {
		return nil, fmt.Errorf("open rdmamap on host root %q: this process has it open on %q, and its roots are global",
			m.Root(), opened.Root())
	}
	return opened, nil
}
