package networkd_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/networkd"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/lldptest"
)

const header = lldptest.Header

// tlv is an element of an announcement.
var tlv = lldptest.Element

// leaf is the frame of a switch: its address, a port with a name, 120 s, its own name, an enabled bridge and router.
var leaf = header + tlv(1, "\x04\x0c\x42\xa1\x00\x00\x07") + tlv(2, "\x05Ethernet1/7") + tlv(3, "\x00\x78") +
	tlv(4, "to worker-1") + tlv(5, "leaf-7") + tlv(7, "\x00\x14\x00\x14") +
	tlv(127, "\x00\x80\xc2\x01\x00\x01") + tlv(0, "")

var leafHeard = networkd.Neighbor{
	Chassis: "0c:42:a1:00:00:07", System: "leaf-7", Port: "Ethernet1/7", Switch: true,
}

// record is a frame in a file.
func record(frame string) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(frame)))) + frame
}

func TestParseFile(t *testing.T) {
	host := header + tlv(1, "\x07host-a") + tlv(2, "\x03\x02\x00\x00\x00\x00\x01") + tlv(3, "\x00\x00") + tlv(0, "")
	hostHeard := networkd.Neighbor{Chassis: "host-a", Port: "02:00:00:00:00:01"}
	ipv4 := strings.Replace(leaf, "\x88\xcc", "\x08\x00", 1)
	for name, c := range map[string]struct {
		file string
		want []networkd.Neighbor
		err  string
	}{
		"none":      {"", nil, ""},
		"a switch":  {record(leaf), []networkd.Neighbor{leafHeard}, ""},
		"two":       {record(leaf) + record(host), []networkd.Neighbor{leafHeard, hostHeard}, ""},
		"no LLDP":   {record(ipv4) + record(leaf), []networkd.Neighbor{leafHeard}, ""},
		"cut":       {record(leaf)[:40], nil, "a frame has"},
		"length":    {"\x01\x02", nil, "within a length"},
		"huge":      {"\xff\xff\xff\xff\xff\xff\xff\xff" + leaf, nil, "a frame has"},
		"too many":  {strings.Repeat(record(leaf), 129), nil, "more than 128"},
		"no end":    {record(strings.TrimSuffix(leaf, "\x00\x00")), nil, ""},
		"disorder":  {record(header + tlv(2, "\x05p") + tlv(1, "\x07c") + tlv(3, "\x00\x78") + tlv(0, "")), nil, ""},
		"no TTL":    {record(header + tlv(1, "\x07c") + tlv(2, "\x05p") + tlv(0, "")), nil, ""},
		"too short": {record(header + tlv(1, "\x07") + tlv(2, "\x05p") + tlv(3, "\x00\x78") + tlv(0, "")), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := networkd.ParseFile([]byte(c.file))
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			test.Eq(t, c.want, got, test.Sprint("neighbors differ"))
		})
	}
}

// netif is the directory of a networkd that manages interface 3.
func netif(t *testing.T, files map[string]string) fs.ReadLinkFS {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644))
		must.NoError(t, err)
	}
	return hostfs.DirFS(dir)
}

// answering is a networkd that answers by varlink once.
func answering(t *testing.T, answer string) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		driver, daemon := net.Pipe()
		go func() {
			defer daemon.Close()
			question := make([]byte, 1024)
			n, err := daemon.Read(question)
			if err != nil || !strings.Contains(string(question[:n]), "io.systemd.Network.GetLLDPNeighbors") ||
				!strings.HasSuffix(string(question[:n]), "\x00") {
				t.Errorf("the question is %q, %v", question[:n], err)
			}
			_, _ = io.WriteString(daemon, answer)
		}()
		return driver, nil
	}
}

func TestRead(t *testing.T) {
	files := map[string]string{"links/3": "", "lldp/3": record(leaf), "lldp/4": "bad"}
	const answer = `{"parameters":{"Neighbors":[{"InterfaceIndex":3,"InterfaceName":"eth0","Neighbors":[` +
		`{"ChassisID":"0c:42:a1:00:00:07","RawChassisID":[12,66,161,0,0,7],"PortID":"Ethernet1/7","RawPortID":[1],` +
		`"SystemName":"leaf-7","EnabledCapabilities":20}]}]}}` + "\x00"
	of := func(n networkd.Neighbor) map[int]networkd.Heard {
		return map[int]networkd.Heard{3: {Neighbors: []networkd.Neighbor{n}}}
	}
	for name, c := range map[string]struct {
		files   map[string]string
		dial    func(context.Context) (net.Conn, error)
		indexes []int
		want    map[int]networkd.Heard
		err     string
		unread  string // interface 4, with this reason
	}{
		"files":              {files: files, indexes: []int{3, 7}, want: of(leafHeard)},
		"a file that is bad": {files: files, indexes: []int{3, 4}, want: of(leafHeard), unread: "/run/systemd/netif/lldp/4"},
		"no networkd":        {indexes: []int{3}, err: "does not run, or /run/systemd/netif is not mounted"},
		"varlink":            {dial: answering(t, answer), indexes: []int{3, 4}, want: of(leafHeard)},
		"another's":          {dial: answering(t, answer), indexes: []int{4}, want: map[int]networkd.Heard{}},
		"an older varlink": {
			files: files, dial: answering(t, `{"error":"org.varlink.service.MethodNotFound"}`+"\x00"), indexes: []int{3},
			want: of(leafHeard),
		},
		"no socket": {
			files: files, indexes: []int{3}, want: of(leafHeard),
			dial: func(context.Context) (net.Conn, error) { return nil, fs.ErrNotExist },
		},
		"an error":      {files: files, dial: answering(t, `{"error":"io.systemd.Busy"}`+"\x00"), err: "io.systemd.Busy"},
		"a broken text": {files: files, dial: answering(t, `{"parameters":`+"\x00"), err: "not as expected"},
		"half a reply":  {files: files, dial: answering(t, `{"para`), err: "ends after 6 bytes"},
		"a flood":       {files: files, dial: answering(t, strings.Repeat("x", 17<<20)), err: "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got, err := networkd.Read(ctx, netif(t, c.files), c.dial, c.indexes)
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if err := got[4].Err; c.unread != "" && (err == nil || !strings.Contains(err.Error(), c.unread)) {
				t.Errorf("interface 4: error %v, want %q", err, c.unread)
			}
			delete(got, 4)
			test.Eq(t, c.want, got, test.Sprint("neighbors differ"))
		})
	}
}

// Whatever a file has: bounded, and no panic.
func FuzzParseFile(f *testing.F) {
	f.Add([]byte(record(leaf)))
	f.Add([]byte(record(leaf) + record(header)))
	f.Add([]byte(record(leaf)[:50]))
	f.Fuzz(func(t *testing.T, data []byte) {
		neighbors, err := networkd.ParseFile(data)
		if err != nil && neighbors != nil || len(neighbors) > 128 {
			t.Errorf("%d neighbors and error %v", len(neighbors), err)
		}
		for _, n := range neighbors {
			if len(n.System) > 511 || len(n.Chassis) > 511 || len(n.Port) > 511 {
				t.Errorf("an element has at most 511 bytes: %+v", n)
			}
		}
	})
}
