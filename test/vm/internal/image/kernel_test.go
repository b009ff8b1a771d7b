package image

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/shoenig/test/must"
)

// bzImage makes a kernel image around a payload, with two setup sectors.
func bzImage(payload []byte) []byte {
	const setup = (2 + 1) * 512
	image := make([]byte, setup+64)
	image[0x1f1] = 2
	copy(image[0x202:], "HdrS")
	binary.LittleEndian.PutUint32(image[0x248:], 64)
	binary.LittleEndian.PutUint32(image[0x24c:], uint32(len(payload)+4))
	image = append(image, payload...)
	return append(image, 1, 2, 3, 4)
}

func compressed(t *testing.T, text string) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	must.NoError(t, err)
	return w.EncodeAll([]byte(text), nil)
}

func TestUnpackVMLinux(t *testing.T) {
	elf, err := unpackVMLinux(bzImage(compressed(t, "\x7fELF and so on")))
	if err != nil || string(elf) != "\x7fELF and so on" {
		t.Errorf("%q, %v", elf, err)
	}
	short := bzImage(compressed(t, "\x7fELF"))
	for name, c := range map[string]struct {
		image []byte
		want  string
	}{
		"empty":     {nil, "no bzImage"},
		"no magic":  {make([]byte, 4096), "no bzImage"},
		"cut off":   {short[:len(short)-10], "of 1"},
		"xz":        {bzImage([]byte("\xfd7zXZ\x00....")), "not compressed with zstd"},
		"no kernel": {bzImage(compressed(t, "#!/bin/sh")), "no ELF"},
	} {
		if _, err := unpackVMLinux(c.image); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
