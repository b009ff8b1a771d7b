package rdmacore

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"math"
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

// Bounds of what is read of a library, whose tables may overlap. Those of libstdc++ have 1 MiB, its versions are 60.
const (
	maxTables   = 8 << 20
	maxSections = 1000
	maxNames    = 1000 // of each kind: each may be the same long text
)

var (
	errELF      = errors.New("not an ELF file")
	errSections = errors.New("damaged ELF file")
	errTables   = errors.New("ELF file with larger tables than those of a library")
)

// ParseObject reads a shared library. Of a library for another machine it reads no tables: the dynamic linker skips it,
// and so does the caller. It does not call debug/elf, because images are not trusted: that expands compressed tables,
// copies a name for each section, and takes time and memory quadratic in the size of a malicious table.
func ParseObject(r io.ReaderAt, machine elf.Machine) (*Object, error) {
	t := &tables{r: r, left: maxTables}
	o := &Object{}
	h, err := t.header(o)
	if err != nil || o.Class != elf.ELFCLASS64 || o.Machine != machine {
		return o, err
	}
	if err := t.readSections(h); err != nil {
		return nil, err
	}
	for i, s := range t.sections {
		switch elf.SectionType(s.Type) {
		case elf.SHT_DYNAMIC:
			err = t.read(i, o.readDynamic)
		case elf.SHT_GNU_VERNEED:
			err = t.read(i, o.readNeeds)
		case elf.SHT_GNU_VERDEF:
			err = t.read(i, o.readDefines)
		}
		if err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(o.Defines, func(v string) bool { return strings.HasPrefix(v, "IBVERBS_") }) {
		o.ROData, err = t.named(".rodata", int(h.Shstrndx))
	}
	return o, err
}

// ParseProgram returns the machine of a program, and whether it needs a dynamic linker.
func ParseProgram(r io.ReaderAt) (machine elf.Machine, dynamic bool, err error) {
	t := &tables{r: r, left: maxTables}
	o := &Object{}
	h, err := t.header(o)
	if err != nil || o.Class != elf.ELFCLASS64 {
		return o.Machine, false, err
	}
	segments := make([]elf.Prog64, h.Phnum)
	err = t.decode(h.Phoff, segments)
	isInterp := func(p elf.Prog64) bool { return elf.ProgType(p.Type) == elf.PT_INTERP }
	return o.Machine, slices.ContainsFunc(segments, isInterp), err
}

// tables reads parts of a file, up to a total of left bytes. The size of the file is no such bound, because a damaged
// file may have many overlapping sections.
type tables struct {
	r        io.ReaderAt
	left     uint64
	sections []elf.Section64
}

// header reads the header of a file, and sets machine and class. The class stays ELFCLASSNONE if the file is big
// endian, since the known machines are not. It reads only the beginning of a header that is not of ELFCLASS64.
func (t *tables) header(o *Object) (h elf.Header64, err error) {
	const machineAt = elf.EI_NIDENT + 2
	start, err := t.bytes(0, machineAt+2)
	switch {
	case errors.Is(err, errSections) || err == nil && string(start[:len(elf.ELFMAG)]) != elf.ELFMAG:
		return h, errELF
	case err != nil:
		return h, err
	}
	if elf.Data(start[elf.EI_DATA]) != elf.ELFDATA2LSB {
		o.Machine = elf.Machine(binary.BigEndian.Uint16(start[machineAt:]))
		return h, nil
	}
	o.Machine, o.Class = elf.Machine(binary.LittleEndian.Uint16(start[machineAt:])), elf.Class(start[elf.EI_CLASS])
	if o.Class != elf.ELFCLASS64 {
		return h, nil
	}
	return h, t.decode(0, &h)
}

func (t *tables) readSections(h elf.Header64) error {
	if h.Shnum > maxSections {
		return errTables
	}
	t.sections = make([]elf.Section64, h.Shnum)
	return t.decode(h.Shoff, t.sections)
}

// decode reads a structure, or several in a row.
func (t *tables) decode(at uint64, into any) error {
	data, err := t.bytes(at, uint64(binary.Size(into)))
	if err == nil {
		_, err = binary.Decode(data, binary.LittleEndian, into)
	}
	return err
}

// bytes reads a part of the file.
func (t *tables) bytes(at, size uint64) ([]byte, error) {
	if size > t.left {
		return nil, errTables
	}
	t.left -= size
	if at > math.MaxInt64-size {
		return nil, errSections
	}
	data := make([]byte, size)
	n, err := t.r.ReadAt(data, int64(at))
	if uint64(n) == size {
		return data, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = errSections
	}
	return nil, err
}

// section reads a section. It rejects compressed ones: the dynamic linker does not support them either.
func (t *tables) section(i int) ([]byte, error) {
	if i >= len(t.sections) {
		return nil, errSections
	}
	s := t.sections[i]
	if elf.SectionType(s.Type) == elf.SHT_NOBITS || elf.SectionFlag(s.Flags)&elf.SHF_COMPRESSED != 0 {
		return nil, errSections
	}
	return t.bytes(s.Off, s.Size)
}

// read calls a reader with a table and its strings.
func (t *tables) read(i int, read func(t table) error) error {
	data, err := t.section(i)
	if err != nil {
		return err
	}
	text, err := t.section(int(t.sections[i].Link))
	if err != nil {
		return err
	}
	return read(table{data, string(text)})
}

// named reads the first section of a name, nil if there is none. names is the section of the names.
func (t *tables) named(name string, names int) ([]byte, error) {
	data, err := t.section(names)
	if err != nil {
		return nil, err
	}
	text := string(data)
	for i, s := range t.sections {
		if got, _ := cString(text, s.Name, MaxPath); got == name {
			return t.section(i)
		}
	}
	return nil, nil
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
		} else if o.Needed = append(o.Needed, s); len(o.Needed) > maxNames {
			return errTables
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
		if len(o.Defines) > maxNames {
			return errTables
		}
		if next == 0 {
			return nil
		}
		at += next
	}
	return nil
}

// readNeeds reads Elf64_Verneed entries with their Elf64_Vernaux entries. It skips weak ones, which a library can do
// without. More entries than the table has room for must overlap, and are an error.
func (o *Object) readNeeds(t table) error {
	const size, weak = 16, 2
	room, names := len(t.data)/size, 0
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
		if names += count; names > maxNames {
			return errTables
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
