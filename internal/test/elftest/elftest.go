// Package elftest writes shared libraries for tests: the tables that the dynamic linker reads, and no code.
package elftest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"maps"
	"slices"
)

// Lib is a shared library to be written.
type Lib struct {
	Machine elf.Machine
	SOName  string
	Needed  []string
	Needs   map[string][]string
	Defines []string
	ROData  string
}

// Section is a section to be written.
type Section struct {
	Name string
	Kind elf.SectionType
	Link uint32
	Data []byte
}

// dynstr collects strings, each at the offset that add returns.
type dynstr struct{ bytes.Buffer }

func (d *dynstr) add(s string) uint32 {
	at := d.Len()
	d.WriteString(s + "\x00")
	return uint32(at)
}

// Build writes the library as ELF64, little endian. The string table is section 2.
func (l Lib) Build() []byte {
	var str dynstr
	str.add("")
	dynamic := l.dynamic(&str)
	sections := []Section{
		{},
		{".rodata", elf.SHT_PROGBITS, 0, []byte(l.ROData)},
		{".dynstr", elf.SHT_STRTAB, 0, nil},
		{".dynamic", elf.SHT_DYNAMIC, 2, dynamic},
	}
	if len(l.Defines) > 0 {
		sections = append(sections, Section{".gnu.version_d", elf.SHT_GNU_VERDEF, 2, l.verdef(&str)})
	}
	if len(l.Needs) > 0 {
		sections = append(sections, Section{".gnu.version_r", elf.SHT_GNU_VERNEED, 2, l.verneed(&str)})
	}
	sections[2].Data = str.Bytes()
	return Link(l.Machine, sections)
}

func (l Lib) dynamic(str *dynstr) []byte {
	var out bytes.Buffer
	entry := func(tag elf.DynTag, value uint32) {
		binary.Write(&out, binary.LittleEndian, elf.Dyn64{Tag: int64(tag), Val: uint64(value)})
	}
	for _, name := range l.Needed {
		entry(elf.DT_NEEDED, str.add(name))
	}
	if l.SOName != "" {
		entry(elf.DT_SONAME, str.add(l.SOName))
	}
	entry(elf.DT_NULL, 0)
	return out.Bytes()
}

// verdef writes Elf64_Verdef and Elf64_Verdaux in turn, the file's own name first.
func (l Lib) verdef(str *dynstr) []byte {
	var out bytes.Buffer
	names := append([]string{l.SOName}, l.Defines...)
	for i, name := range names {
		flags, next := uint16(0), uint32(28)
		if i == 0 {
			flags = 1
		}
		if i == len(names)-1 {
			next = 0
		}
		binary.Write(&out, binary.LittleEndian, struct {
			Version, Flags, Index, Count     uint16
			Hash, Aux, Next, Name, NextInAux uint32
		}{1, flags, uint16(i + 1), 1, 0, 20, next, str.add(name), 0})
	}
	return out.Bytes()
}

// verneed writes each Elf64_Verneed followed by its Elf64_Vernaux.
func (l Lib) verneed(str *dynstr) []byte {
	var out bytes.Buffer
	libraries := slices.Sorted(maps.Keys(l.Needs))
	for i, name := range libraries {
		versions := l.Needs[name]
		next := uint32(16 * (1 + len(versions)))
		if i == len(libraries)-1 {
			next = 0
		}
		binary.Write(&out, binary.LittleEndian, struct {
			Version, Count  uint16
			File, Aux, Next uint32
		}{1, uint16(len(versions)), str.add(name), 16, next})
		for j, version := range versions {
			step := uint32(16)
			if j == len(versions)-1 {
				step = 0
			}
			binary.Write(&out, binary.LittleEndian, struct {
				Hash         uint32
				Flags, Other uint16
				Name, Next   uint32
			}{0, 0, uint16(j + 2), str.add(version), step})
		}
	}
	return out.Bytes()
}

// Link writes the file: header, sections, their names, section headers.
func Link(machine elf.Machine, sections []Section) []byte {
	var body bytes.Buffer
	var names dynstr
	sections = append(sections, Section{".shstrtab", elf.SHT_STRTAB, 0, nil})
	var headers []elf.Section64
	for i, s := range sections {
		h := elf.Section64{Name: names.add(s.Name), Type: uint32(s.Kind), Link: s.Link, Off: uint64(64 + body.Len())}
		if i == len(sections)-1 {
			s.Data = names.Bytes()
		}
		h.Size = uint64(len(s.Data))
		body.Write(s.Data)
		headers = append(headers, h)
	}
	var out bytes.Buffer
	binary.Write(&out, binary.LittleEndian, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Ehsize: 64, Shentsize: 64, Shoff: uint64(64 + body.Len()),
		Shnum: uint16(len(headers)), Shstrndx: uint16(len(headers) - 1),
	})
	out.Write(body.Bytes())
	binary.Write(&out, binary.LittleEndian, headers)
	return out.Bytes()
}

// Library32 is a library of a 32-bit machine, as the dynamic linker sees it.
func Library32() []byte {
	var out bytes.Buffer
	binary.Write(&out, binary.LittleEndian, elf.Header32{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS32), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_386), Version: uint32(elf.EV_CURRENT), Ehsize: 52,
	})
	return out.Bytes()
}

// LDConfig writes an ld.so.cache of SONAMEs and paths.
func LDConfig(entries [][2]string) []byte {
	var str dynstr
	var table bytes.Buffer
	const header, entry = 48, 24 // struct cache_file_new and struct file_entry_new of glibc
	base := uint32(header + entry*len(entries))
	for _, e := range entries {
		binary.Write(&table, binary.LittleEndian, struct {
			Flags, Key, Value, OS uint32
			HWCap                 uint64
		}{0x303, base + str.add(e[0]), base + str.add(e[1]), 0, 0})
	}
	var out bytes.Buffer
	out.WriteString("glibc-ld.so.cache1.1")
	binary.Write(&out, binary.LittleEndian, [7]uint32{uint32(len(entries)), uint32(str.Len()), 2})
	out.Write(table.Bytes())
	out.Write(str.Bytes())
	return out.Bytes()
}
