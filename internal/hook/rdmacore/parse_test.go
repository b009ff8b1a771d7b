package rdmacore

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/elftest"
)

func TestParseCache(t *testing.T) {
	entries := [][2]string{{"liba.so.1", "/lib/liba.so.1"}, {"libb.so.2", "/opt/libb.so.2"},
		{"liba.so.1", "/usr/lib/liba.so.1"}}
	whole := elftest.LDConfig(entries)
	old := slices.Concat([]byte("ld.so-1.7.0\x00\x00\x00\x00\x00"), whole) // both formats in one file
	for name, data := range map[string][]byte{"new": whole, "behind the old": old} {
		cache, err := ParseCache(data)
		must.NoError(t, err, must.Sprintf("%s", name))
		test.SliceEqOp(t, []string{"lib/liba.so.1", "usr/lib/liba.so.1"}, cache["liba.so.1"],
			test.Sprintf("%s: liba.so.1", name))
	}
	for n := range whole[:len(whole)-1] {
		if _, err := ParseCache(whole[:n]); !errors.Is(err, errCache) {
			t.Errorf("the first %d bytes: error %v", n, err)
		}
	}
}

// TestCacheOfHost reads this machine's cache, whose libc.so.6 must exist.
func TestCacheOfHost(t *testing.T) {
	data, err := os.ReadFile("/etc/ld.so.cache")
	if err != nil {
		t.Skip("this machine has no glibc:", err)
	}
	cache, err := ParseCache(data)
	must.NoError(t, err)
	for _, p := range cache["libc.so.6"] {
		if _, err := os.Stat("/" + p); err != nil {
			t.Error(err)
		}
	}
	test.NotEq(t, 0, len(cache["libc.so.6"]), test.Sprintf("no libc.so.6 among %d names", len(cache)))
}

func TestParseObject(t *testing.T) {
	l := elftest.Lib{
		Machine: elf.EM_AARCH64, SOName: "libx.so.1", Needed: []string{"liba.so", "libc.so.6"}, ROData: "text\x00",
		Needs:   map[string][]string{"liba.so": {"A_1", "A_2"}, "libc.so.6": {"GLIBC_2.17"}},
		Defines: []string{"IBVERBS_1.0", "IBVERBS_1.1"},
	}
	o, err := ParseObject(bytes.NewReader(l.Build()), l.Machine)
	must.NoError(t, err)
	if o.Machine != l.Machine || o.Class != elf.ELFCLASS64 || o.SOName != l.SOName || string(o.ROData) != l.ROData ||
		!slices.Equal(o.Needed, l.Needed) || !slices.Equal(o.Defines, l.Defines) ||
		!slices.Equal(o.Needs["liba.so"], l.Needs["liba.so"]) || !slices.Equal(o.Needs["libc.so.6"], l.Needs["libc.so.6"]) {
		t.Errorf("read %+v, want %+v", o, l)
	}
}

// TestParseObjectDamaged breaks one table at a time.
func TestParseObjectDamaged(t *testing.T) {
	str := []byte("\x00name\x00")
	tables := func(kind elf.SectionType, link uint32, data []byte) []byte {
		return elftest.Link(elf.EM_X86_64, []elftest.Section{{}, {Name: ".dynstr", Kind: elf.SHT_STRTAB, Data: str},
			{Name: ".table", Kind: kind, Link: link, Data: data}})
	}
	verdef := func(next, aux, name byte) []byte {
		d := make([]byte, 28)
		d[0], d[6], d[12], d[16], d[20] = 1, 1, aux, next, name
		return d
	}
	for name, data := range map[string][]byte{
		"strings out of range": tables(elf.SHT_DYNAMIC, 99, make([]byte, 16)),
		"name out of range": tables(elf.SHT_DYNAMIC, 1, []byte{byte(elf.DT_NEEDED), 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0,
			0, 0, 0, 0}),
		"definition without name": tables(elf.SHT_GNU_VERDEF, 1, verdef(0, 200, 1)),
		"definitions overlap":     tables(elf.SHT_GNU_VERDEF, 1, verdef(1, 20, 1)),
		"definition misnamed":     tables(elf.SHT_GNU_VERDEF, 1, verdef(0, 20, 99)),
		"more needs than room":    tables(elf.SHT_GNU_VERNEED, 1, []byte{1, 0, 255, 255, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
		"need of another version": tables(elf.SHT_GNU_VERNEED, 1, make([]byte, 16)),
	} {
		if o, err := ParseObject(bytes.NewReader(data), elf.EM_X86_64); err == nil {
			t.Errorf("%s: read %+v", name, o)
		}
	}
}

func TestProviderOf(t *testing.T) {
	for driver, want := range map[string]string{
		"mlx5_core": "mlx5", "mlx5_core.sf": "mlx5", "ice": "irdma", "hfi1": "hfi1verbs", "vendor_new": "vendor_new",
	} {
		if got, _ := ProviderOf(driver); got != want {
			t.Errorf("%s has provider %q, want %q", driver, got, want)
		}
	}
}

func FuzzObject(f *testing.F) {
	f.Add(elftest.Lib{Machine: elf.EM_X86_64, Needed: []string{"libnl-3.so.200"}, Defines: []string{"IBVERBS_1.0"},
		ROData: "/etc/libibverbs.d\x00"}.Build())
	f.Add(elftest.Lib{Machine: elf.EM_X86_64, Needs: map[string][]string{"libc.so.6": {"GLIBC_2.34"}},
		Defines: []string{"A"}}.Build())
	f.Add(elftest.Library32())
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := ParseObject(bytes.NewReader(data), elf.EM_X86_64)
		if err != nil {
			return
		}
		n := 0
		for _, versions := range o.Needs {
			n += len(versions)
		}
		test.LessEq(t, len(data), n+len(o.Defines),
			test.Sprintf("%d versions from %d bytes", n+len(o.Defines), len(data)))
	})
}

// TestParseObjectIsBounded: a library of an image takes little memory, whatever its headers say. Of the first, debug/elf
// copies the long name for each section.
func TestParseObjectIsBounded(t *testing.T) {
	const mib = 1 << 20
	section := func(kind elf.SectionType, size, flags uint64) elf.Section64 {
		return elf.Section64{Type: uint32(kind), Link: 1, Off: 64, Size: size, Flags: flags}
	}
	text, none := section(elf.SHT_STRTAB, mib, 0), elf.Section64{}
	needed := bytes.Repeat([]byte{byte(elf.DT_NEEDED), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, mib/16)
	for name, tt := range map[string]struct {
		data     []byte
		sections []elf.Section64
		err      error
	}{
		"long names":       {bytes.Repeat([]byte("A"), mib), slices.Repeat([]elf.Section64{text}, 200), nil},
		"many sections":    {needed, slices.Repeat([]elf.Section64{text}, 60_000), errTables},
		"large tables":     {make([]byte, mib), slices.Repeat([]elf.Section64{text, section(elf.SHT_DYNAMIC, mib, 0)}, 9), errTables},
		"many names":       {needed, []elf.Section64{none, text, section(elf.SHT_DYNAMIC, mib, 0)}, errTables},
		"compressed names": {needed, []elf.Section64{none, section(elf.SHT_STRTAB, mib, 0x800), section(elf.SHT_DYNAMIC, 16, 0)}, errSections},
		"endless table":    {needed, []elf.Section64{none, text, section(elf.SHT_DYNAMIC, 1<<63, 0)}, errTables},
	} {
		h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Shoff: 64 + mib, Shentsize: 64,
			Shnum: uint16(len(tt.sections)), Shstrndx: 1}
		copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
		var file bytes.Buffer
		for _, part := range []any{h, tt.data, tt.sections} {
			must.NoError(t, binary.Write(&file, binary.LittleEndian, part))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		o, err := ParseObject(bytes.NewReader(file.Bytes()), elf.EM_X86_64)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, tt.err) || used > 24*mib {
			t.Errorf("%s: %+v, %v, and %d MiB for a file of %d KiB", name, o, err, used/mib, file.Len()>>10)
		}
	}
}

// Each entry of a cache may name the same long text. What is kept of a cache is not larger
// than its file by more than its entries.
func TestParseCacheIsBounded(t *testing.T) {
	const count = 10000
	data := make([]byte, cacheHeader+count*cacheEntry, cacheHeader+count*cacheEntry+1<<20)
	copy(data, cacheMagic)
	binary.LittleEndian.PutUint32(data[20:], count)
	text := uint32(len(data))
	for i := range count {
		entry := data[cacheHeader+i*cacheEntry:]
		binary.LittleEndian.PutUint32(entry[4:], text)
		binary.LittleEndian.PutUint32(entry[8:], text)
	}
	for name, c := range map[string]struct {
		text []byte
		err  error
	}{
		"longer than a path": {append(bytes.Repeat([]byte("/"), 1<<20), 0), errCache},
		"a long path":        {append(bytes.Repeat([]byte("/"), 4000), 0), nil},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ParseCache(append(data, c.text...))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, c.err) || used > 8<<20 {
			t.Errorf("%s: %v, and %d bytes for a file of %d", name, err, used, len(data)+len(c.text))
		}
	}
}

func FuzzCache(f *testing.F) {
	f.Add(elftest.LDConfig([][2]string{{"liba.so", "/lib/liba.so"}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		cache, err := ParseCache(data)
		test.NotEq(t, (err == nil), (cache == nil), test.Sprintf("cache %v, error %v", cache, err))
	})
}
