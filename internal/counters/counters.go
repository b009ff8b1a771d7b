package counters

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Counter is one counter, as the kernel has it.
type Counter struct {
	Name  string // of the file
	Value uint64
}

// Port are the counters of one port, each list in the order of names.
type Port struct {
	Standard []Counter // ports/N/counters
	Hardware []Counter // ports/N/hw_counters
	// Unreadable is how many files were there and gave no number.
	Unreadable int
}

// Device are the counters of a device that belong to no port, in the order of names.
type Device struct {
	Hardware   []Counter // hw_counters
	Unreadable int
}

const class = "class/infiniband"

func portDir(ibdev string, port int) string {
	return path.Join(class, ibdev, "ports", strconv.Itoa(port))
}

// ReadPort reads the counters of a port of an ibdev below a /sys. A port without any,
// or that is not there, has none.
func ReadPort(sys fs.FS, ibdev string, port int) Port {
	dir := portDir(ibdev, port)
	var p Port
	var n int
	p.Standard, p.Unreadable = read(sys, dir+"/counters")
	p.Hardware, n = read(sys, dir+"/hw_counters")
	p.Unreadable += n
	return p
}

// ReadOne reads one counter of a port: that of the architecture, else the driver's of
// the same name. It reports whether there is a number.
func ReadOne(sys fs.FS, ibdev string, port int, name string) (uint64, bool) {
	for _, dir := range []string{"counters", "hw_counters"} {
		if text, err := fs.ReadFile(sys, path.Join(portDir(ibdev, port), dir, name)); err == nil {
			value, absent, err := parse(string(text))
			return value, err == nil && !absent
		}
	}
	return 0, false
}

// ReadDevice reads the counters of an ibdev that belong to no port.
func ReadDevice(sys fs.FS, ibdev string) Device {
	var d Device
	d.Hardware, d.Unreadable = read(sys, path.Join(class, ibdev, "hw_counters"))
	return d
}

// maxFiles is more counters than any driver has in one directory: hfi1, which has the
// most, has a few hundred.
const maxFiles = 1024

// read reads a directory of counters. A file that fails costs only itself.
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

// isCounter tells counters from the setting that stands among them: lifespan is for
// how many milliseconds the kernel keeps the values of hw_counters.
func isCounter(name string) bool { return name != "lifespan" }

// parse reads the content of a counter's file. A port without a performance management
// agent says so in words ("N/A (no PMA)"): it has no such counter.
func parse(text string) (value uint64, absent bool, err error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "N/A") {
		return 0, true, nil
	}
	value, err = strconv.ParseUint(text, 10, 64)
	return value, false, err
}

// IsGauge reports whether a file of hw_counters holds a level, which falls as well as it
// rises. The kernel does not say; those of bnxt_re are known: what is in use now, the
// most that was, and a register.
func IsGauge(name string) bool {
	return strings.HasPrefix(name, "active_") || strings.HasPrefix(name, "watermark_") || name == "db_fifo_register"
}
