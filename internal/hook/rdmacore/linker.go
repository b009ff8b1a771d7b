package rdmacore

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Linker looks for libraries in the same order as glibc's dynamic linker: first in the cache, then in the compiled-in
// directories (_dl_map_new_object in elf/dl-load.c). It assumes a program without RUNPATH and LD_LIBRARY_PATH. Names of
// files have no leading slash.
type Linker struct {
	Machine elf.Machine
	Layout  Layout
	Dirs    []string // the compiled-in directories
	cache   Cache
	read    func(name string) (*Object, error)
}

// maxCandidates bounds how many files of one name Find examines. If the cache has more, Find examines the first ones.
const maxCandidates = 64

// NewLinker determines the directories that the dynamic linker of a root searches. read reads a library of the root,
// and follows links. A nil cache is a missing one.
func NewLinker(machine elf.Machine, cache Cache, read func(name string) (*Object, error)) (*Linker, error) {
	layout, ok := Layouts[machine]
	if !ok {
		return nil, fmt.Errorf("find user space for machine %v: only x86-64 and arm64 are known", machine)
	}
	l := &Linker{Machine: machine, Layout: layout, cache: cache, read: read}
	l.Dirs = l.searched()
	return l, nil
}

// searched infers the compiled-in directories from the directory of the libc, which is one of them (slibdir of glibc's
// build). Without a libc it returns all directories.
func (l *Linker) searched() []string {
	families := [][]string{l.Layout.multiarch()[:2], lib64, plain}
	for i, family := range families {
		l.Dirs = family
		if !l.Has("libc.so.6") {
			continue
		}
		if i == 0 {
			return l.Layout.multiarch()
		}
		return family
	}
	return append(l.Layout.multiarch(), lib64...)
}

// Candidates returns the paths where the dynamic linker looks for a name, in order.
func (l *Linker) Candidates(name string) []string {
	paths := l.cache[name]
	paths = slices.Clone(paths[:min(len(paths), maxCandidates)])
	for _, dir := range l.Dirs {
		paths = append(paths, path.Join(dir, name))
	}
	return paths
}

// Find returns the first library of a name that is for the machine, and the path at which it was found. Like the
// dynamic linker, it skips files of another class or machine. If it finds no library, the error names the skipped
// files.
func (l *Linker) Find(name string) (*Object, string, error) {
	var unfit []error
	for _, p := range l.Candidates(name) {
		o, err := l.Open(p)
		switch {
		case err == nil:
			return o, p, nil
		case errors.Is(err, ErrOtherMachine):
			unfit = append(unfit, err)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return nil, "", err
		}
	}
	if len(unfit) > 0 {
		// /lib and /usr/lib are often the same directory, so two errors may be equal
		unfit = slices.CompactFunc(unfit, func(a, b error) bool { return a.Error() == b.Error() })
		return nil, "", fmt.Errorf("find library %q: %w", name, errors.Join(unfit...))
	}
	return nil, "", fmt.Errorf("find library %q in /etc/ld.so.cache and /%s: %w", name, strings.Join(l.Dirs, ", /"),
		fs.ErrNotExist)
}

// Has reports whether Find finds a library.
func (l *Linker) Has(name string) bool {
	_, _, err := l.Find(name)
	return err == nil
}

// ErrOtherMachine is the error for a library that is for another machine.
var ErrOtherMachine = errors.New("library for another machine")

// Open reads the library at a path, and returns ErrOtherMachine if it is for another machine.
func (l *Linker) Open(name string) (*Object, error) {
	o, err := l.read(name)
	if err != nil {
		return nil, err
	}
	if o.Class != elf.ELFCLASS64 || o.Machine != l.Machine {
		return nil, fmt.Errorf("%w: /%s is %v %v, want 64-bit %s", ErrOtherMachine, cmp.Or(o.Path, name), o.Class, o.Machine,
			l.Layout.Name)
	}
	return o, nil
}

// Cache is the content of /etc/ld.so.cache: the paths of each SONAME, in the order of the file.
type Cache map[string][]string

// MaxCache bounds the size of the cache: a cache of 10,000 libraries has 1 MiB.
const MaxCache = 16 << 20

var cacheMagic = []byte("glibc-ld.so.cache1.1")

const (
	cacheHeader = 48 // struct cache_file_new
	cacheEntry  = 24 // struct file_entry_new
)

var errCache = errors.New("not a cache of glibc's ldconfig")

// ParseCache reads the format that glibc has written since 2.2 (dl-cache.h), alone or behind the older format. It skips
// entries of glibc-hwcaps directories. They are variants of a library for newer CPUs, and the library also has an entry
// without hwcaps.
func ParseCache(data []byte) (Cache, error) {
	start := bytes.Index(data, cacheMagic)
	if start < 0 || len(data)-start < cacheHeader {
		return nil, errCache
	}
	data = data[start:] // string offsets count from here
	count := binary.LittleEndian.Uint32(data[20:])
	if uint64(count) > uint64(len(data)-cacheHeader)/cacheEntry {
		return nil, errCache
	}
	cache, text := Cache{}, string(data) // the strings in the cache share the memory of this copy
	for i := range int(count) {
		entry := data[cacheHeader+i*cacheEntry:]
		if binary.LittleEndian.Uint64(entry[16:]) != 0 { // hwcap
			continue
		}
		soname, ok1 := cString(text, binary.LittleEndian.Uint32(entry[4:]), MaxPath)
		file, ok2 := cString(text, binary.LittleEndian.Uint32(entry[8:]), MaxPath)
		if !ok1 || !ok2 || !strings.HasPrefix(file, "/") {
			return nil, errCache
		}
		cache[soname] = append(cache[soname], strings.TrimPrefix(file, "/"))
	}
	return cache, nil
}

// MaxPath is PATH_MAX of Linux, the maximum length of a path.
const MaxPath = 4096

// cString returns the NUL-terminated string at an offset, of at most limit bytes. The result shares the memory of text,
// so many names within one long string cost no memory.
func cString(text string, offset uint32, limit int) (string, bool) {
	if uint64(offset) >= uint64(len(text)) {
		return "", false
	}
	rest := text[offset:]
	end := strings.IndexByte(rest[:min(len(rest), limit+1)], 0)
	if end < 0 {
		return "", false
	}
	return rest[:end], true
}
