package capture_test

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
)

// wholeVPD is VPD as a card has it: with its serial number, also in the part that may be written.
func wholeVPD(uuid, purpose string) string {
	keyword := func(name, value string) string { return name + string([]byte{byte(len(value))}) + value }
	part := func(tag, data string) string { return tag + string([]byte{byte(len(data)), 0}) + data }
	return part("\x82", "ConnectX-8 SECRET") +
		part("\x90", keyword("PN", "900-SECRET")+keyword("SN", "MT2SECRET01")+keyword("V3", uuid)+
			keyword("VA", "MLX:MN=MLNX:MODL=SECRET"+purpose)+keyword("RV", "\x01\x00")) +
		part("\x91", keyword("YA", "SECRET asset")) + "\x78"
}

const boardUUID = "f13a7bda2bb4e8118000e4434b9ef4ae"

// TestVPD: a capture keeps of VPD no more than what a function is for and the UUID of its card, or a hash of the UUID
// when it is scrubbed. Functions of a card stay related, and what is discovered stays the same.
func TestVPD(t *testing.T) {
	const card9 = "/0000:00:00.0/0000:01:00.0/0000:02:00.0/0000:03:00."
	m, err := fixture.Load("gb300-cx8")
	must.NoError(t, err)
	x := m.Tree().Clone()
	for _, e := range m.Tree().Entries() {
		dir, ok := strings.CutSuffix(e.Path, "/vpd")
		if ok && (strings.Contains(dir, card9) || strings.HasSuffix(dir, "/0009:03:00.0")) {
			e.Data = wholeVPD(boardUUID, ":SMDL=X")
		} else if ok {
			e.Data = wholeVPD("other"+dir[len(dir)-12:], "")
		}
		must.NoError(t, x.Replace(e))
	}
	// A function whose VPD nobody needs.
	gpu := "sys/devices/pci0008:00/0008:00:00.0/0008:01:00.0/0008:02:01.0/0008:04:00.0/0008:05:00.0/0008:06:00.0/vpd"
	must.NoError(t, x.Write(tree.Entry{Path: gpu, Data: wholeVPD("gpu", "")}))
	host := fixture.New("host", "", x)
	captured, err := capture.Host(host.FS(t))
	must.NoError(t, err)
	// Somebody else's tar, or an old capture, may have whole VPD.
	for name, got := range map[string]*tree.Tree{"capture": captured, "whole VPD": x} {
		scrubbed := scrub(t, got, capture.Names{})
		for _, e := range scrubbed.Entries() {
			if strings.Contains(e.Data, "SECRET") || strings.Contains(e.Data, boardUUID) {
				t.Errorf("%s, scrubbed: %s has %q", name, e.Path, e.Data)
			}
		}
		snap := rdmatest.Discover(t, fixture.New(name, "", scrubbed))
		h := snap.Lookup("pci-0000-03-00-1")
		if h == nil || h.DataDirect == nil || h.DataDirect.Address != "0009:03:00.0" || h.Purpose != "X" {
			t.Errorf("%s, scrubbed: HCA %+v", name, h)
		}
	}
	for _, e := range captured.Entries() {
		test.StrNotContains(t, e.Data, "SECRET", test.Sprintf("%s has a serial number", e.Path))
	}
	if _, ok := captured.Lookup(gpu); ok {
		t.Error("the VPD of a GPU is captured")
	}
}
