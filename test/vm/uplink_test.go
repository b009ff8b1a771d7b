package vm

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// TestRelay: what a guest sends to its uplink arrives, and so does the answer.
func TestRelay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		heard := make([]byte, len("hello"))
		if _, err := io.ReadFull(conn, heard); err == nil {
			_, _ = io.WriteString(conn, "you said "+string(heard))
		}
	}()
	in, guest := io.Pipe()
	go func() { _, _ = io.WriteString(guest, "hello") }()
	var out strings.Builder
	if err := relay(l.Addr().String(), in, &out); err != nil || out.String() != "you said hello" {
		t.Errorf("the guest hears %q, %v", &out, err)
	}
}

// TestUplinkArgs: the network of the uplink leads nowhere else.
func TestUplinkArgs(t *testing.T) {
	u := &Uplink{
		Address: "10.96.0.15/24", Server: "10.96.0.1:443", Host: "127.0.0.1:6443",
		Forwards: map[string]int{"127.0.0.1:9999": 10250, "127.0.0.1:9998": 9000},
	}
	args := strings.Join(u.args(), " ")
	if !strings.Contains(args, "restrict=on,net=10.96.0.0/24,guestfwd=tcp:10.96.0.1:443-cmd:/") ||
		!strings.Contains(args, ",hostfwd=tcp:127.0.0.1:9998-10.96.0.15:9000,hostfwd=tcp:127.0.0.1:9999-10.96.0.15:10250 ") {
		t.Errorf("QEMU is told %s", args)
	}
}
