package rdma_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// keywords is the read-only part of VPD, as the PCI specification has it.
func keywords(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString(pairs[i] + string([]byte{byte(len(pairs[i+1]))}) + pairs[i+1])
	}
	return b.String()
}

func vpd(readOnly string) string {
	return "\x82\x0e\x00ConnectX-7 NDR\x90" + string([]byte{byte(len(readOnly)), byte(len(readOnly) >> 8)}) + readOnly + "\x78"
}

const va = "MLX:MN=MLNX:CSKU=V2:UUID=V3:PCI=V0:MODL=CX75310A"

func TestParseVPD(t *testing.T) {
	manager := keywords("PN", "MCX75310AAS-NEAT", "SN", "MT0000X00000", "V3", "aa11\x00", "VA", va+":SMDL=SW_MNG", "RV", "\x01\x00\x00")
	for name, c := range map[string]struct {
		content string
		want    rdma.VPD
	}{
		"manager":          {vpd(manager), rdma.VPD{Card: "aa11", Purpose: "SW_MNG"}},
		"network":          {vpd(keywords("V3", "aa11", "VA", va)), rdma.VPD{Card: "aa11"}},
		"small tag first":  {"\x3a\x01\x02" + vpd(manager), rdma.VPD{Card: "aa11", Purpose: "SW_MNG"}},
		"no name":          {vpd(manager)[17:], rdma.VPD{Card: "aa11", Purpose: "SW_MNG"}},
		"empty file":       {"", rdma.VPD{}},
		"end at once":      {"\x78", rdma.VPD{}},
		"no read-only":     {"\x82\x01\x00x\x78", rdma.VPD{}},
		"SMDL in the name": {strings.Replace(vpd(keywords("V3", "aa11")), "ConnectX-7 NDR", "x :SMDL=SW_MNG", 1), rdma.VPD{Card: "aa11"}},
		"another field":    {vpd(keywords("VA", "MLX:XSMDL=SW_MNG:SMDLX=SW_MNG")), rdma.VPD{}},
		"no text":          {vpd(keywords("V3", "a\x01b", "VA", "SMDL=\xff\xfe")), rdma.VPD{}},
		"long text":        {vpd(keywords("V3", strings.Repeat("a", 65))), rdma.VPD{}},
		"value cut off":    {vpd("V3\x20aa11"), rdma.VPD{Card: "aa11"}},
	} {
		test.EqOp(t, c.want, rdma.ParseVPD([]byte(c.content)), test.Sprint(name))
	}
	for name, content := range map[string]string{
		"cut in a tag":    "\x82\x0e",
		"cut after a tag": "\x82",
		"cut in data":     vpd(manager)[:60],
		"all ones":        strings.Repeat("\xff", 300),
		"all zeros":       strings.Repeat("\x00", 100_000),
		"longer than VPD": "\x82\xff\xff" + strings.Repeat("x", 70_000) + vpd(manager),
		"only small tags": strings.Repeat("\x39x", 50_000),
	} {
		got := rdma.ParseVPD([]byte(content))
		test.True(t, got.Problem != "" && got.Card+got.Purpose == "",
			test.Sprintf("%s: %+v; want a problem and nothing else", name, got))
	}
}

func FuzzParseVPD(f *testing.F) {
	f.Add([]byte(vpd(keywords("V3", "aa11", "VA", va+":SMDL=SW_MNG"))))
	f.Add([]byte("\x82\xff\x7f"))
	f.Fuzz(func(t *testing.T, content []byte) {
		v := rdma.ParseVPD(content)
		for _, text := range []string{v.Card, v.Purpose} {
			if len(text) > 64 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q is no text of a card", text)
			}
		}
		test.True(t, v.Problem == "" || v.Card+v.Purpose == "", test.Sprintf("%+v: a problem, and values", v))
	})
}

// TestVPDReadsLittle: each word costs a request to the card, so nothing behind the read-only keywords is read, and no
// more than the address space of VPD on a card that never ends.
func TestVPDReadsLittle(t *testing.T) {
	content := vpd(keywords("V3", "aa11"))
	for name, c := range map[string]struct {
		content string
		most    int
	}{
		"whole":  {content + strings.Repeat("w", 30_000), len(content) - 1},
		"no end": {strings.Repeat("\x82\x00\x10"+strings.Repeat("x", 4096), 100), 32 << 10},
	} {
		sys := &readCounter{FS: fstest.MapFS{"vpd": &fstest.MapFile{Data: []byte(c.content)}}}
		rdma.ReadVPD(t.Context(), sys, map[string]string{"a": "vpd"})
		test.LessEq(t, c.most, sys.bytes,
			test.Sprintf("%s: %d bytes are read; want at most %d", name, sys.bytes, c.most))
	}
}

// readCounter counts the bytes that are read.
type readCounter struct {
	fs.FS
	bytes int
}

type countedFile struct {
	fs.File
	to *readCounter
}

func (c *readCounter) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	return countedFile{f, c}, err
}

func (f countedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.to.bytes += n
	return n, err
}

// TestReadVPDHangs: a card that does not answer is given up when the time is over, whatever the kernel does.
func TestReadVPDHangs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	defer close(release)
	hangs := openFunc(func(string) (fs.File, error) {
		cancel()
		<-release
		return nil, errors.New("released")
	})
	got := rdma.ReadVPD(ctx, hangs, map[string]string{"0000:3b:00.0": "hangs/vpd"})
	v := got["0000:3b:00.0"]
	test.True(t, len(got) == 1 && strings.Contains(v.Problem, "did not answer in time") && !v.Denied,
		test.Sprintf("%+v", got))
}

type openFunc func(string) (fs.File, error)

func (f openFunc) Open(name string) (fs.File, error) { return f(name) }

// TestReadVPDFails: what is denied is no fault of the card, and a file that is gone is a function without VPD.
func TestReadVPDFails(t *testing.T) {
	for errno, want := range map[syscall.Errno]rdma.VPD{
		syscall.EACCES: {Problem: "read VPD: open x: permission denied", Denied: true},
		syscall.EIO:    {Problem: "read VPD: open x: input/output error"},
		syscall.ENOENT: {},
	} {
		sys := openFunc(func(name string) (fs.File, error) { return nil, &fs.PathError{Op: "open", Path: name, Err: errno} })
		test.EqOp(t, want, rdma.ReadVPD(t.Context(), sys, map[string]string{"a": "x"})["a"],
			test.Sprintf("%v", errno))
	}
}
