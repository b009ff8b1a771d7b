package rdmacore

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
)

// Object contains the properties of a shared library that the dynamic linker reads.
type Object struct {
	Path    string // the file without links, where its reader knows it; for messages
	Machine elf.Machine
	Class   elf.Class
	SOName  string
	Needed  []string            // DT_NEEDED, in order
	Needs   map[string][]string // symbol versions needed, by library
	Defines []string            // symbol versions defined
	ROData  []byte              // set for libibverbs only
	RunPath bool                // it names directories for the libraries that it needs
}

// MaxObject bounds the size of a library to read. The largest library of rdma-core is below 1 MiB, and glibc's
// libc.so.6 is 2 MiB.
const MaxObject = 64 << 20

// errSections means that the tables of a library contradict each other.
var errSections = errors.New("damaged ELF file")

// ParseObject reads a shared library. It reads the version tables itself, because images are not trusted: debug/elf
// takes time and memory quadratic in the size of a malicious table.
func ParseObject(r io.ReaderAt) (*Object, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o := &Object{Machine: f.Machine, Class: f.Class}
	if f.Class != elf.ELFCLASS64 || f.ByteOrder.String() != "LittleEndian" {
		return o, nil // the dynamic linker skips such a file, and so does the caller
	}
	tables := tables{f, MaxObject}
	for _, s := range f.Sections {
		switch s.Type {
		case elf.SHT_DYNAMIC:
			err = tables.read(s, o.readDynamic)
		case elf.SHT_GNU_VERNEED:
			err = tables.read(s, o.readNeeds)
		case elf.SHT_GNU_VERDEF:
			err = tables.read(s, o.readDefines)
		}
		if err != nil {
			return nil, err
		}
	}
	verbs := slices.ContainsFunc(o.Defines, func(v string) bool { return strings.HasPrefix(v, "IBVERBS_") })
	if s := f.Section(".rodata"); s != nil && verbs {
		o.ROData, err = tables.bytes(s)
	}
	return o, err
}

// tables reads sections up to a total of left bytes. The size of the file is no such bound, because a damaged file may
// have many overlapping sections.
type tables struct {
	f    *elf.File
	left uint64
}

// read calls a reader with a table and its strings.
func (t *tables) read(s *elf.Section, read func(t table) error) error {
	if uint64(s.Link) >= uint64(len(t.f.Sections)) {
		return errSections
	}
	data, err := t.bytes(s)
	if err != nil {
		return err
	}
	text, err := t.bytes(t.f.Sections[s.Link])
	if err != nil {
		return err
	}
	return read(table{data, string(text)})
}

// bytes reads a section. It rejects compressed sections, for which debug/elf leaves ReaderAt nil: the dynamic linker
// does not support them either.
func (t *tables) bytes(s *elf.Section) ([]byte, error) {
	if s.Type == elf.SHT_NOBITS || s.ReaderAt == nil || s.FileSize > t.left {
		return nil, errSections
	}
	t.left -= s.FileSize
	data, err := io.ReadAll(io.NewSectionReader(s.ReaderAt, 0, int64(s.FileSize)))
	if err == nil && uint64(len(data)) != s.FileSize {
		err = errSections
	}
	return data, err
}

// table is a section of an ELF file and the strings it refers to.
type table struct {
	data    []byte
	strings string
}

func (t table) u16(at int) int { return int(binary.LittleEndian.Uint16(t.data[at:])) }
func (t table) u32(at int) int { return int(binary.LittleEndian.Uint32(t.data[at:])) }

// text returns the string whose offset stands at a position of the table.
func (t table) text(at int) (string, error) {
	s, ok := cString(t.strings, uint32(t.u32(at)), MaxPath)
	if !ok {
		return "", errSections
	}
	return s, nil
}

func (o *Object) readDynamic(t table) error {
	for at := 0; at+16 <= len(t.data); at += 16 {
		tag := elf.DynTag(binary.LittleEndian.Uint64(t.data[at:]))
		if tag == elf.DT_NULL {
			return nil
		}
		o.RunPath = o.RunPath || tag == elf.DT_RUNPATH || tag == elf.DT_RPATH
		if tag != elf.DT_NEEDED && tag != elf.DT_SONAME {
			continue
		}
		s, err := t.text(at + 8)
		if err != nil {
			return err
		}
		if tag == elf.DT_SONAME {
			o.SOName = s
		} else {
			o.Needed = append(o.Needed, s)
		}
	}
	return nil
}

// readDefines reads Elf64_Verdef entries. It skips the first one, with the flag VER_FLG_BASE, which is the name of the
// file.
func (o *Object) readDefines(t table) error {
	const size, auxSize, base = 20, 8, 1
	for at := 0; at+size <= len(t.data); {
		aux, next := at+t.u32(at+12), t.u32(at+16)
		if t.u16(at) != 1 || aux+auxSize > len(t.data) || (next != 0 && next < size) {
			return errSections
		}
		name, err := t.text(aux)
		if err != nil {
			return err
		}
		if t.u16(at+2)&base == 0 {
			o.Defines = append(o.Defines, name)
		}
		if next == 0 {
			return nil
		}
		at += next
	}
	return nil
}

// readNeeds reads Elf64_Verneed entries with their Elf64_Vernaux entries. It skips weak ones, which a library can do
// without. The size of the table bounds the number of entries; more entries must overlap, and are an error.
func (o *Object) readNeeds(t table) error {
	const size, weak = 16, 2
	room := len(t.data) / size
	o.Needs = map[string][]string{}
	for at := 0; at+size <= len(t.data); {
		count, aux, next := t.u16(at+2), at+t.u32(at+8), t.u32(at+12)
		library, err := t.text(at + 4)
		if err != nil {
			return err
		}
		if room -= count; room < 0 || t.u16(at) != 1 || (next != 0 && next < size) {
			return errSections
		}
		for range count {
			if aux+size > len(t.data) {
				return errSections
			}
			version, err := t.text(aux + 8)
			if err != nil {
				return err
			}
			if t.u16(aux+4)&weak == 0 {
				o.Needs[library] = append(o.Needs[library], version)
			}
			aux += t.u32(aux + 12)
		}
		if next == 0 {
			return nil
		}
		at += next
	}
	return nil
}
