package tree

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
)

// VPD returns the content of a file vpd with the values that a capture keeps, and no others: the UUID of the card (V3),
// and what the function is for (SMDL, a field of VA). The layout is that of the PCI Local Bus Specification 3.0,
// appendix I.
func VPD(card, purpose string) string {
	var keywords strings.Builder
	add := func(name, value string) { keywords.WriteString(name + string([]byte{byte(len(value))}) + value) }
	if card != "" {
		add("V3", card)
	}
	if purpose != "" {
		add("VA", "SMDL="+purpose)
	}
	large := func(tag byte, data string) string {
		return string(binary.LittleEndian.AppendUint16([]byte{tag}, uint16(len(data)))) + data
	}
	return large(0x82, "") + large(0x90, keywords.String()) + "\x78"
}

// isBinary reports whether the file at a path is no text.
func isBinary(name string) bool { return path.Base(name) == "vpd" }

// hexLine is the number of bytes on a line of binary content.
const hexLine = 32

func formatHex(data string) string {
	var out strings.Builder
	for data != "" {
		n := min(hexLine, len(data))
		fmt.Fprintf(&out, "%x\n", data[:n])
		data = data[n:]
	}
	return out.String()
}

func parseHex(body string) (string, error) {
	data, err := hex.DecodeString(strings.Join(strings.Fields(body), ""))
	return string(data), err
}
