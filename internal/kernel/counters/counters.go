// Package counters reads the counters that the kernel keeps for an RDMA device.
//
// The counters are in three directories of sysfs. A driver may provide any of the three:
//
//	ports/N/counters       the counters of the InfiniBand architecture (PortCounters)
//	ports/N/hw_counters    additional counters of the driver for a port
//	hw_counters            counters of the driver for the device
//
// The driver determines the names and meanings of its counters. Every file with a decimal number is a counter, for any
// driver. Values are as the kernel reports them, so port_rcv_data and port_xmit_data are in words of four octets.
// [Port.Traffic] returns them in bytes, and finds the corresponding counters of drivers without these two files. A
// counter that is missing or unreadable is absent, and not 0.
//
// The counters of the architecture that are 8, 16 or 32 bits wide, such as link_downed and symbol_error, stay at their
// maximum until somebody clears them.
package counters

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// Counter is one counter of the kernel.
type Counter struct {
	Name  string // the name of the file
	Value uint64
}

// Port contains the counters of one port. Each list is in the order of names.
type Port struct {
	Standard []Counter // ports/N/counters
	Hardware []Counter // ports/N/hw_counters
	// Unreadable is the number of files that exist but contain no number.
	Unreadable int
}

// Device contains the counters of a device that belong to no port, in the order of their names.
type Device struct {
	Hardware   []Counter // hw_counters
	Unreadable int
}

const class = "class/infiniband"

func portDir(ibdev string, port int) string {
	return path.Join(class, ibdev, "ports", strconv.Itoa(port))
}

// ReadPort reads the counters of a port of an ibdev below a /sys. A missing port has no counters.
func ReadPort(sys fs.FS, ibdev string, port int) Port {
	dir := portDir(ibdev, port)
	var p Port
	var n int
	p.Standard, p.Unreadable = read(sys, dir+"/counters")
	p.Hardware, n = read(sys, dir+"/hw_counters")
	p.Unreadable += n
	return p
}

// ReadOne reads one counter of a port: the counter of the architecture, otherwise the driver's counter of the same
// name. It reports whether the counter has a number.
func ReadOne(sys fs.FS, ibdev string, port int, name string) (uint64, bool) {
	for _, dir := range []string{"counters", "hw_counters"} {
		if text, err := fs.ReadFile(sys, path.Join(portDir(ibdev, port), dir, name)); err == nil {
			value, absent, err := parse(string(text))
			return value, err == nil && !absent
		}
	}
	return 0, false
}

// LinkDownedMax is where link_downed stops on drivers with the register of the architecture, which is 8 bits wide.
const LinkDownedMax = 255

// ReadNetdev reads a counter of a network interface: carrier_down_count, or statistics/NAME. It reports whether the
// counter has a number. An interface in the network namespace of a pod has none below the host's /sys.
func ReadNetdev(sys fs.FS, netdev, name string) (uint64, bool) {
	if netdev == "" {
		return 0, false
	}
	content, err := fs.ReadFile(sys, path.Join("class/net", netdev, name))
	if err != nil {
		return 0, false
	}
	value, absent, err := parse(string(content))
	return value, err == nil && !absent
}

// ReadDevice reads the counters of an ibdev that belong to no port.
func ReadDevice(sys fs.FS, ibdev string) Device {
	var d Device
	d.Hardware, d.Unreadable = read(sys, path.Join(class, ibdev, "hw_counters"))
	return d
}

// maxFiles is more than the number of counters in one directory of any driver. hfi1 has the most, a few hundred.
const maxFiles = 1024

// read reads a directory of counters. It continues after a file that it cannot read.
func read(sys fs.FS, dir string) (found []Counter, unreadable int) {
	entries, err := fs.ReadDir(sys, dir)
	if err != nil {
		return nil, 0
	}
	for _, e := range entries[:min(len(entries), maxFiles)] {
		if e.IsDir() || !isCounter(e.Name()) {
			continue
		}
		text, err := fs.ReadFile(sys, path.Join(dir, e.Name()))
		if err != nil {
			unreadable++
			continue
		}
		value, absent, err := parse(string(text))
		switch {
		case err != nil:
			unreadable++
		case !absent:
			found = append(found, Counter{e.Name(), value})
		}
	}
	return found, unreadable
}

// isCounter reports whether a file contains a counter. The file lifespan contains a setting: how many milliseconds the
// kernel caches the values of hw_counters.
func isCounter(name string) bool { return name != "lifespan" }

// notRead is what a file contains if a driver passes on the error of its firmware as a number, such as ionic does. No
// counter of 64 bits gets so far.
const notRead = math.MaxUint64

// parse reads the content of a counter's file. A port without a performance management agent has no such counter, and
// its file contains the text "N/A (no PMA)".
func parse(text string) (value uint64, absent bool, err error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "N/A") {
		return 0, true, nil
	}
	value, err = strconv.ParseUint(text, 10, 64)
	if err == nil && value == notRead {
		return 0, true, nil
	}
	return value, false, err
}

// IsGauge reports whether a file of hw_counters contains a value that can fall as well as rise. The kernel does not say
// which files do. The known ones are bnxt_re's: numbers of objects in use, their maximum so far, and a register.
func IsGauge(name string) bool {
	return strings.HasPrefix(name, "active_") || strings.HasPrefix(name, "watermark_") || name == "db_fifo_register"
}
