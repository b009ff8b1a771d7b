// Package initramfs writes the archive that the kernel unpacks before it starts
// process 1: a "newc" cpio, described in the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst.
package initramfs

import (
	"bufio"
	"fmt"
	"io"
)

// Entry is a directory (no Data, and the mode says so) or a file.
type Entry struct {
	// Name is the path without a leading slash.
	Name string
	// Mode is type and permissions: 0o040755, 0o100755.
	Mode uint32
	Data []byte
}

// Dir is a directory.
func Dir(name string) Entry { return Entry{Name: name, Mode: 0o040755} }

// File is a program or another file.
func File(name string, data []byte) Entry { return Entry{Name: name, Mode: 0o100755, Data: data} }

// Write writes the archive. A directory comes before what it holds.
func Write(w io.Writer, entries ...Entry) error {
	b := bufio.NewWriter(w)
	for i, e := range append(entries, Entry{Name: "TRAILER!!!"}) {
		writeEntry(b, i+1, e)
	}
	// A bufio.Writer keeps its first error.
	return b.Flush()
}

func writeEntry(b *bufio.Writer, inode int, e Entry) {
	const zero = 0
	fields := []uint32{
		uint32(inode), e.Mode, zero, zero, // user, group
		1, zero, uint32(len(e.Data)), // links, time
		zero, zero, zero, zero, // device numbers
		uint32(len(e.Name)) + 1, zero, // no checksum
	}
	n := 6
	b.WriteString("070701")
	for _, f := range fields {
		m, _ := fmt.Fprintf(b, "%08x", f)
		n += m
	}
	m, _ := b.WriteString(e.Name + "\x00")
	pad(b, n+m)
	b.Write(e.Data)
	pad(b, len(e.Data))
}

// pad fills up to a multiple of four.
func pad(b *bufio.Writer, n int) {
	for ; n%4 != 0; n++ {
		b.WriteByte(0)
	}
}
