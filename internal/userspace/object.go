package userspace

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
)

// object contains the properties of a shared library that the dynamic linker reads.
type object struct {
	machine elf.Machine
	class   elf.Class
	soname  string
	needed  []string            // DT_NEEDED, in order
	needs   map[string][]string // symbol versions needed, by library
	defines []string            // symbol versions defined
	rodata  []byte              // set for libibverbs only
}

// maxObject bounds the size of a library to read. The largest library of rdma-core is below 1 MiB, and glibc's
// libc.so.6 is 2 MiB.
const maxObject = 64 << 20

// errSections means that the tables of a library contradict each other.
var errSections = errors.New("damaged ELF file")

// readObject reads a shared library. It reads the version tables itself, because images are not trusted: debug/elf
// takes time and memory quadratic in the size of a malicious table.
func readObject(root fs.ReadLinkFS, name string) (*object, error) {
	f, err := hostfs.Open(root, name, maxObject)
	if err != nil {
		return nil, fmt.Errorf("read library: %w", err)
	}
	defer f.Close()
	r, ok := f.(io.ReaderAt)
	if !ok {
		return nil, fmt.Errorf("read library /%s: %T has no random access", name, f)
	}
	o, err := parseObject(r)
	if err != nil {
		return nil, fmt.Errorf("read library /%s: %w", name, err)
	}
	return o, nil
}

func parseObject(r io.ReaderAt) (*object, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o := &object{machine: f.Machine, class: f.Class}
	if f.Class != elf.ELFCLASS64 || f.ByteOrder.String() != "LittleEndian" {
		return o, nil // the dynamic linker skips such a file, and so does the caller
	}
	tables := tables{f, maxObject}
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
	verbs := slices.ContainsFunc(o.defines, func(v string) bool { return strings.HasPrefix(v, "IBVERBS_") })
	if s := f.Section(".rodata"); s != nil && verbs {
		o.rodata, err = tables.bytes(s)
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
