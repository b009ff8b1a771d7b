package userspace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
)

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
