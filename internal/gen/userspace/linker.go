package userspace

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// linker looks for libraries in the same order as glibc's dynamic linker: first in the cache, then in the compiled-in
// directories (_dl_map_new_object in elf/dl-load.c). It assumes a program without RUNPATH and LD_LIBRARY_PATH.
type linker struct {
	root    fs.ReadLinkFS
	machine elf.Machine
	layout  layout
	cache   ldCache
	dirs    []string
}

// maxCache bounds the size of the cache: a cache of 10,000 libraries has 1 MiB.
const maxCache = 16 << 20

// maxCandidates bounds how many files of one name find examines. If the cache has more, find examines the first ones.
const maxCandidates = 64

// newLinker reads the cache of a root and determines the directories that its dynamic linker searches. It treats a
// cache of another format as a missing one, as glibc does.
func newLinker(root fs.ReadLinkFS, machine elf.Machine) (*linker, error) {
	layout, ok := layouts[machine]
	if !ok {
		return nil, fmt.Errorf("find user space for machine %v: only x86-64 and arm64 are known", machine)
	}
	l := &linker{root: root, machine: machine, layout: layout}
	data, err := hostfs.ReadFile(root, "etc/ld.so.cache", maxCache)
	if errors.Is(err, hostfs.ErrNotRegular) || errors.Is(err, hostfs.ErrTooLarge) {
		return nil, fmt.Errorf("read the names of libraries: %w", err)
	}
	if err == nil {
		l.cache, _ = parseCache(data)
	}
	l.dirs = l.searched()
	return l, nil
}

// searched infers the compiled-in directories from the directory of the libc, which is one of them (slibdir of glibc's
// build). Without a libc it returns all directories.
func (l *linker) searched() []string {
	families := [][]string{l.layout.multiarch()[:2], lib64, plain}
	for i, family := range families {
		l.dirs = family
		if !l.has("libc.so.6") {
			continue
		}
		if i == 0 {
			return l.layout.multiarch()
		}
		return family
	}
	return append(l.layout.multiarch(), lib64...)
}

// candidates returns the paths where the dynamic linker looks for a name, in order.
func (l *linker) candidates(name string) []string {
	paths := slices.Clone(l.cache[name])
	paths = paths[:min(len(paths), maxCandidates)]
	for _, dir := range l.dirs {
		paths = append(paths, path.Join(dir, name))
	}
	return paths
}

// found is a library at the path where the dynamic linker found it.
type found struct {
	*object
	// path is the fs name with the symbolic links of its directory resolved and its file name kept:
	// /lib64/libibverbs.so.1 becomes usr/lib64/libibverbs.so.1. The file name stays valid after a minor upgrade of the
	// package. The present target of the link does not.
	path string
	real string // the same file without symbolic links
}

// find returns the first library of a name that is for the machine. Like the dynamic linker, it skips files of another
// class or machine. If it finds no library, the error names the skipped files.
func (l *linker) find(name string) (*found, error) {
	var unfit []error
	for _, p := range l.candidates(name) {
		f, err := l.open(p)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, errUnfit):
			unfit = append(unfit, err)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return nil, err
		}
	}
	if len(unfit) > 0 {
		// /lib and /usr/lib are often the same directory, so two errors may be equal
		unfit = slices.CompactFunc(unfit, func(a, b error) bool { return a.Error() == b.Error() })
		return nil, fmt.Errorf("find library %q: %w", name, errors.Join(unfit...))
	}
	return nil, fmt.Errorf("find library %q in /etc/ld.so.cache and /%s: %w", name, strings.Join(l.dirs, ", /"),
		fs.ErrNotExist)
}

func (l *linker) has(name string) bool {
	_, err := l.find(name)
	return err == nil
}

// errUnfit is the error for a library that is for another machine.
var errUnfit = errors.New("library for another machine")

// open reads the library at a path, and returns errUnfit if it is for another machine.
func (l *linker) open(name string) (*found, error) {
	real, err := hostfs.Resolve(l.root, name)
	if err != nil {
		return nil, err
	}
	dir, err := hostfs.Resolve(l.root, path.Dir(name))
	if err != nil {
		return nil, err
	}
	o, err := readObject(l.root, real)
	if err != nil {
		return nil, err
	}
	if o.class != elf.ELFCLASS64 || o.machine != l.machine {
		return nil, fmt.Errorf("%w: /%s is %v %v, want 64-bit %s", errUnfit, real, o.class, o.machine, l.layout.name)
	}
	return &found{o, path.Join(dir, path.Base(name)), real}, nil
}

// ldCache is the content of /etc/ld.so.cache: the paths of each SONAME, in the order of the file.
type ldCache map[string][]string

var cacheMagic = []byte("glibc-ld.so.cache1.1")

const (
	cacheHeader = 48 // struct cache_file_new
	cacheEntry  = 24 // struct file_entry_new
)

var errCache = errors.New("not a cache of glibc's ldconfig")

// parseCache reads the format that glibc has written since 2.2 (dl-cache.h), alone or behind the older format. It skips
// entries of glibc-hwcaps directories. They are variants of a library for newer CPUs, and the library also has an entry
// without hwcaps.
func parseCache(data []byte) (ldCache, error) {
	start := bytes.Index(data, cacheMagic)
	if start < 0 || len(data)-start < cacheHeader {
		return nil, errCache
	}
	data = data[start:] // string offsets count from here
	count := binary.LittleEndian.Uint32(data[20:])
	if uint64(count) > uint64(len(data)-cacheHeader)/cacheEntry {
		return nil, errCache
	}
	cache, text := ldCache{}, string(data) // the strings in the cache share the memory of this copy
	for i := range int(count) {
		entry := data[cacheHeader+i*cacheEntry:]
		if binary.LittleEndian.Uint64(entry[16:]) != 0 { // hwcap
			continue
		}
		soname, ok1 := cString(text, binary.LittleEndian.Uint32(entry[4:]), maxPath)
		file, ok2 := cString(text, binary.LittleEndian.Uint32(entry[8:]), maxPath)
		if !ok1 || !ok2 || !strings.HasPrefix(file, "/") {
			return nil, errCache
		}
		cache[soname] = append(cache[soname], strings.TrimPrefix(file, "/"))
	}
	return cache, nil
}

// maxPath is PATH_MAX of Linux, the maximum length of a path.
const maxPath = 4096

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
