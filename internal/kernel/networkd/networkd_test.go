package networkd_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/networkd"
)

var leafHeard = networkd.Neighbor{
	Chassis: "0c:42:a1:00:00:07", System: "leaf-7", Port: "Ethernet1/7", Switch: true,
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
	of := func(index int, neighbors string) string {
		return fmt.Sprintf(`{"InterfaceIndex":%d,"InterfaceName":"eth0","Neighbors":[%s]}`, index, neighbors)
	}
	reply := func(interfaces ...string) string {
		return `{"parameters":{"Neighbors":[` + strings.Join(interfaces, ",") + "]}}\x00"
	}
	const leaf = `{"ChassisID":"0c:42:a1:00:00:07","RawChassisID":[12,66,161,0,0,7],"PortID":"Ethernet1/7",` +
		`"RawPortID":[1],"SystemName":"leaf-7","EnabledCapabilities":20}`
	const host = `{"ChassisID":"host-a","PortID":"02:00:00:00:00:01"}`
	hostHeard := networkd.Neighbor{Chassis: "host-a", Port: "02:00:00:00:00:01"}
	for name, c := range map[string]struct {
		dial func(context.Context) (net.Conn, error)
		want map[int][]networkd.Neighbor
		err  string
	}{
		"two interfaces": {
			dial: answering(t, reply(of(3, leaf+","+host), of(4, ""))),
			want: map[int][]networkd.Neighbor{3: {leafHeard, hostHeard}, 4: nil},
		},
		"too many": {
			dial: answering(t, reply(of(4, leaf), of(3, strings.Repeat(host+",", 200)+host))),
			want: map[int][]networkd.Neighbor{3: slices.Repeat([]networkd.Neighbor{hostHeard}, 128), 4: {leafHeard}},
		},
		"nobody": {dial: answering(t, reply()), want: map[int][]networkd.Neighbor{}},
		"an older networkd": {
			dial: answering(t, `{"error":"org.varlink.service.MethodNotFound"}`+"\x00"), err: "systemd 257 or newer",
		},
		"no socket": {
			dial: func(context.Context) (net.Conn, error) { return nil, fs.ErrNotExist }, err: "systemd 257 or newer",
		},
		"an error":      {dial: answering(t, `{"error":"io.systemd.Busy"}`+"\x00"), err: "io.systemd.Busy"},
		"a broken text": {dial: answering(t, `{"parameters":`+"\x00"), err: "not as expected"},
		"half a reply":  {dial: answering(t, `{"para`), err: "ends after 6 bytes"},
		"a flood":       {dial: answering(t, strings.Repeat("x", 17<<20)), err: "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got, err := networkd.Read(ctx, c.dial)
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			test.Eq(t, c.want, got, test.Sprint("neighbors differ"))
		})
	}
}
