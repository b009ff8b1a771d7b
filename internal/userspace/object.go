package userspace

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// object is what the dynamic linker reads of a shared library.
type object struct {
	machine elf.Machine
	class   elf.Class
	soname  string
	needed  []string            // DT_NEEDED, in order
	needs   map[string][]string // symbol versions needed, by library
	defines []string            // symbol versions defined
	rodata  []byte
}

// maxObject bounds what is read of a library. rdma-core's largest is below 1 MiB,
// and glibc's libc.so.6 is 2 MiB.
const maxObject = 64 << 20

// errSections means that the tables of a library contradict each other.
var errSections = errors.New("damaged ELF file")

// readObject reads a shared library. Images are not to be trusted, so this reads
// the version tables itself: debug/elf takes time and memory quadratic in the size
// of a table made for that.
func readObject(root fs.FS, name string) (*object, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read library: %w", err)
	}
	defer f.Close()
	r, err := readerAt(f)
	if err != nil {
		return nil, fmt.Errorf("read library /%s: %w", name, err)
	}
	o, err := parseObject(r)
	if err != nil {
		return nil, fmt.Errorf("read library /%s: %w", name, err)
	}
	return o, nil
}

// readerAt gives random access to a file, which those of a disk have.
func readerAt(f fs.File) (io.ReaderAt, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if info.Size() > maxObject {
		return nil, fmt.Errorf("%d bytes is more than a library has", info.Size())
	}
	if r, ok := f.(io.ReaderAt); ok {
		return r, nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxObject))
	return bytes.NewReader(data), err
}

func parseObject(r io.ReaderAt) (*object, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o := &object{machine: f.Machine, class: f.Class}
	if f.Class != elf.ELFCLASS64 || f.ByteOrder.String() != "LittleEndian" {
		return o, nil // the dynamic linker passes over it, and so does the caller
	}
	for _, s := range f.Sections {
		switch {
		case s.Type == elf.SHT_DYNAMIC:
			err = readSection(f, s, o.readDynamic)
		case s.Type == elf.SHT_GNU_VERNEED:
			err = readSection(f, s, o.readNeeds)
		case s.Type == elf.SHT_GNU_VERDEF:
			err = readSection(f, s, o.readDefines)
		case s.Name == ".rodata":
			o.rodata, err = sectionData(s)
		}
		if err != nil {
			return nil, err
		}
	}
	return o, nil
}

// readSection hands a table and its strings to a reader.
func readSection(f *elf.File, s *elf.Section, read func(t table) error) error {
	if uint64(s.Link) >= uint64(len(f.Sections)) {
		return errSections
	}
	data, err := sectionData(s)
	if err != nil {
		return err
	}
	strings, err := sectionData(f.Sections[s.Link])
	if err != nil {
		return err
	}
	return read(table{data, strings})
}

// sectionData reads a section. The dynamic linker knows no compressed ones, for
// which debug/elf leaves ReaderAt nil.
func sectionData(s *elf.Section) ([]byte, error) {
	if s.Type == elf.SHT_NOBITS || s.ReaderAt == nil || s.FileSize > maxObject {
		return nil, errSections
	}
	data, err := io.ReadAll(io.NewSectionReader(s.ReaderAt, 0, int64(s.FileSize)))
	if err == nil && uint64(len(data)) != s.FileSize {
		err = errSections
	}
	return data, err
}
