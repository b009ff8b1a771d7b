package userspace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
)

// ldCache is /etc/ld.so.cache: the paths of each SONAME, in the file's order.
type ldCache map[string][]string

var cacheMagic = []byte("glibc-ld.so.cache1.1")

const (
	cacheHeader = 48 // struct cache_file_new
	cacheEntry  = 24 // struct file_entry_new
)

var errCache = errors.New("not a cache of glibc's ldconfig")

// parseCache reads the format that glibc has written since 2.2 (dl-cache.h), on
// its own or behind the older one. Entries of glibc-hwcaps directories are left
// out: they are variants for newer CPUs of a library that has an entry without.
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
	cache, text := ldCache{}, string(data) // what is kept of the text is a part of this one copy
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

// maxPath is PATH_MAX of Linux: no path is longer.
const maxPath = 4096

// cString returns the NUL-terminated string at an offset, of at most limit bytes. It is a
// part of the text: many names of one long string cost no memory.
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
