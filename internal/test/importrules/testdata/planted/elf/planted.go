// Package planted breaks the rule "elf": it parses what may be anything.
package planted

import (
	"debug/elf"
	"io"
)

func machine(r io.ReaderAt) elf.Machine {
	f, err := elf.NewFile(r)
	if err != nil {
		return elf.EM_NONE
	}
	return f.Machine
}
