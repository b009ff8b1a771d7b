package rdma

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
)

// VPD is what the vital product data of a PCI function says about its card.
type VPD struct {
	// Card is the UUID of the card (keyword V3). All functions of a card have the same one.
	Card string `json:"card,omitempty"`
	// Purpose is the field SMDL, e.g. SW_MNG. Most functions have none.
	Purpose string `json:"purpose,omitempty"`
	// Problem says why the VPD cannot be read.
	Problem string `json:"problem,omitempty"`
	// Denied says that the reader may not read it, so that the card was not asked.
	Denied bool `json:"denied,omitempty"`
}

const (
	// VPDTime is the time that Discover gives all VPD of a host. A card gives it word by word through its configuration
	// space, and the kernel waits up to 125 ms for a word of a broken card (drivers/pci/vpd.c).
	VPDTime = 5 * time.Second
	// maxVPD is the size of the VPD's address space.
	maxVPD = 32 << 10
	// maxVPDText bounds texts of a card: they are keys and parts of messages.
	maxVPDText = 64
)

// Tags of VPD (PCI Local Bus Specification 3.0, appendix I).
const (
	vpdLarge    = 0x80
	vpdReadOnly = 0x90
	vpdEnd      = 0x78
)

// ReadVPD reads files of VPD, by PCI address, all at the same time. It returns when ctx ends: a file that is not read
// by then has a problem. A reader that the kernel does not let go stays behind until the kernel does.
func ReadVPD(ctx context.Context, sys fs.FS, files map[string]string) map[string]VPD {
	type result struct {
		address string
		vpd     VPD
	}
	results := make(chan result, len(files)) // nobody may wait for a reader, and no reader for anybody
	for address, file := range files {
		go func() { results <- result{address, readVPD(ctx, sys, file)} }()
	}
	out := make(map[string]VPD, len(files))
	for range files {
		select {
		case r := <-results:
			out[r.address] = r.vpd
		case <-ctx.Done():
			for address, file := range files {
				if _, ok := out[address]; !ok {
					out[address] = VPD{Problem: fmt.Sprintf("read %s: the card did not answer in time", file)}
				}
			}
			return out
		}
	}
	return out
}

func readVPD(ctx context.Context, sys fs.FS, file string) VPD {
	f, err := sys.Open(file)
	if err == nil {
		var data []byte
		data, err = vpdReadOnlyPart(ctx, f)
		err = errors.Join(err, f.Close())
		if err == nil {
			return parseVPD(data)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return VPD{}
	}
	return VPD{Problem: fmt.Sprintf("read VPD: %v", err), Denied: errors.Is(err, fs.ErrPermission)}
}

// ParseVPD parses the content of a file vpd.
func ParseVPD(content []byte) VPD {
	data, err := vpdReadOnlyPart(context.Background(), bytes.NewReader(content))
	if err != nil {
		return VPD{Problem: err.Error()}
	}
	return parseVPD(data)
}

// vpdReadOnlyPart returns the read-only keywords. It reads no further, because each word costs a request to the card.
func vpdReadOnlyPart(ctx context.Context, f io.Reader) ([]byte, error) {
	left := maxVPD
	for left > 0 && ctx.Err() == nil {
		var head [3]byte
		if _, err := io.ReadFull(f, head[:1]); err == io.EOF {
			return nil, nil // a card without VPD, or without keywords
		} else if err != nil {
			return nil, err
		}
		tag, length := head[0], int(head[0]&0x07)
		switch {
		case tag == vpdEnd:
			return nil, nil
		case tag&vpdLarge != 0:
			if _, err := io.ReadFull(f, head[1:]); err != nil {
				return nil, cut(err)
			}
			length = int(binary.LittleEndian.Uint16(head[1:]))
		}
		if left -= len(head) + length; left < 0 {
			break
		}
		data := make([]byte, length)
		if _, err := io.ReadFull(f, data); err != nil {
			return nil, cut(err)
		}
		if tag == vpdReadOnly {
			return data, nil
		}
	}
	return nil, cmp.Or(ctx.Err(), errors.New("the structure does not end where it must: the card's VPD is damaged"))
}

// cut turns the end of a file within a structure into an error that says so.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends within a structure: the card's VPD is damaged")
	}
	return err
}

// parseVPD parses the read-only keywords: two letters, a length, and the value. SMDL is one of several fields of a
// value, such as MLX:MN=MLNX:CSKU=V2:UUID=V3:PCI=V0:MODL=CX75310A:SMDL=SW_MNG.
func parseVPD(data []byte) VPD {
	var v VPD
	for len(data) >= 3 {
		keyword, length := string(data[:2]), int(data[2])
		data = data[3:]
		value := data[:min(length, len(data))]
		data = data[len(value):]
		if keyword == "V3" {
			v.Card = vpdText(value)
		}
		for field := range bytes.SplitSeq(value, []byte(":")) {
			if text, ok := bytes.CutPrefix(field, []byte("SMDL=")); ok {
				v.Purpose = vpdText(text)
			}
		}
	}
	return v
}

// vpdText returns a value as text, "" if it is none.
func vpdText(value []byte) string {
	s := strings.TrimSpace(strings.TrimRight(string(value), "\x00"))
	if len(s) > maxVPDText || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return s
}
