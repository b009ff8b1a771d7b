package vm

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// Frames of the kinds that a switch tells apart, as short as they come.
var (
	tcpFrame  = ipv4(6, make([]byte, 20))
	roceFrame = ipv4(17, []byte{0xc0, 0, 4791 >> 8, 4791 & 255, 0, 8, 0, 0})
	arpFrame  = append(append(make([]byte, 12), 8, 6), make([]byte, 28)...)
)

func ipv4(protocol byte, payload []byte) []byte {
	frame := append(make([]byte, 12), 8, 0, 0x45)
	frame = append(frame, make([]byte, 19)...)
	frame[14+9] = protocol
	return append(frame, payload...)
}

func TestKind(t *testing.T) {
	tagged := append(append(make([]byte, 12), 0x81, 0, 0, 100), roceFrame[12:]...)
	six := append(append(make([]byte, 12), 0x86, 0xdd), make([]byte, 40)...)
	six[14+6] = 17
	for name, c := range map[string]struct {
		frame []byte
		want  Kind
	}{
		"TCP": {tcpFrame, TCP}, "RoCE": {roceFrame, RoCE}, "RoCE on a VLAN": {tagged, RoCE}, "ARP": {arpFrame, Other},
		"RoCE by IPv6": {append(six, roceFrame[34:]...), RoCE}, "a name": {ipv4(17, []byte{0, 53, 0, 53}), Other},
		"nothing": {nil, Other}, "half a port": {roceFrame[:37], Other}, "half a tag": {tagged[:15], Other},
	} {
		test.Eq(t, c.want, kindOf(c.frame), test.Sprintf("%s: kind", name))
	}
}

// station is what QEMU is to a port.
type station struct {
	*Port
	conn net.Conn
}

func join(t *testing.T, s *Switch) station {
	t.Helper()
	p, err := s.Port()
	must.NoError(t, err)
	conn, err := net.Dial("unix", p.socket())
	must.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return station{p, conn}
}

func (s station) send(t *testing.T, frame []byte) {
	t.Helper()
	if _, err := s.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
		t.Fatal(err)
	}
}

func (s station) receive(t *testing.T) string {
	t.Helper()
	must.NoError(t, s.conn.SetReadDeadline(time.Now().Add(time.Minute)))
	frame, err := readFrame(s.conn)
	must.NoError(t, err)
	return string(frame)
}

func newSwitch(t *testing.T) *Switch {
	t.Helper()
	s, err := NewSwitch()
	must.NoError(t, err)
	t.Cleanup(func() {
		test.NoError(t, s.Close())
	})
	return s
}

// known waits until the switch knows that a station is there.
func (s station) known(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		conn := s.Port.conn
		s.mu.Unlock()
		if conn != nil {
			return
		}
		must.False(t, time.Now().After(deadline), must.Sprintf("port %d has no guest", s.number))
	}
}

// A switch passes frames on, in their order, to all ports but their own, and counts them by direction and kind.
func TestSwitch(t *testing.T) {
	s := newSwitch(t)
	a, b, c := join(t, s), join(t, s), join(t, s)
	b.known(t)
	c.known(t)
	a.send(t, tcpFrame)
	a.send(t, roceFrame)
	for _, to := range []station{b, c} {
		if first, second := to.receive(t), to.receive(t); first != string(tcpFrame) || second != string(roceFrame) {
			t.Errorf("port %d receives %q and %q", to.number, first, second)
		}
	}
	if got, want := a.Sent(RoCE), (Traffic{1, uint64(len(roceFrame))}); got != want || b.Sent(RoCE) != (Traffic{}) {
		t.Errorf("counted %v from one port and %v from another, want %v and nothing", got, b.Sent(RoCE), want)
	}
	test.NotEq(t, b.MAC().String(), a.MAC().String(),
		test.Sprintf("two ports have the hardware address %s", a.MAC()))
}

// What comes while the switch is cut is lost, and what comes later is not. A delay holds frames back.
func TestCut(t *testing.T) {
	s := newSwitch(t)
	a, b := join(t, s), join(t, s)
	b.known(t)
	s.Cut(true)
	a.send(t, tcpFrame)
	for deadline := time.Now().Add(time.Minute); a.Lost().Frames == 0; time.Sleep(time.Millisecond) {
		must.False(t, time.Now().After(deadline), must.Sprint("the frame is not counted as lost"))
	}
	s.Cut(false)
	const delay = 100 * time.Millisecond
	s.Delay(delay)
	sent := time.Now()
	a.send(t, roceFrame)
	test.Eq(t, string(roceFrame), b.receive(t), test.Sprint("after a cut arrives"))
	test.GreaterEq(t, delay, time.Since(sent), test.Sprint("a frame took"))
	test.EqOp(t, (Traffic{}), a.Sent(TCP), test.Sprint("a lost frame is counted as sent"))
}

// A guest that is started again has its port again, and one that sends nonsense loses it.
func TestReconnect(t *testing.T) {
	s := newSwitch(t)
	a, b := join(t, s), join(t, s)
	b.known(t)
	if _, err := a.conn.Write([]byte{0xff, 0xff, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after nonsense: %v", err)
	}
	again, err := net.Dial("unix", a.socket())
	must.NoError(t, err)
	defer again.Close()
	station{a.Port, again}.send(t, roceFrame)
	test.Eq(t, string(roceFrame), b.receive(t), test.Sprint("the second guest's frame arrives"))
}

// QEMU is asked for the device of the port; what it refuses is an error.
func TestCarrier(t *testing.T) {
	s := newSwitch(t)
	p, err := s.Port()
	must.NoError(t, err)
	l, err := net.Listen("unix", p.monitor())
	must.NoError(t, err)
	defer l.Close()
	asked := make(chan string, 10)
	go func() {
		for _, last := range []string{`{"return": {}}`, `{"error": {"class": "DeviceNotFound", "desc": "no such device"}}`} {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, `{"QMP": {"version": {}}}`+"\n")
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				asked <- lines.Text()
				if strings.Contains(lines.Text(), "set_link") {
					_, _ = io.WriteString(conn, `{"event": "RESUME"}`+"\n"+last+"\n")
					continue
				}
				_, _ = io.WriteString(conn, `{"return": {}}`+"\n")
			}
			conn.Close()
		}
	}()
	test.NoError(t, p.Carrier(false))
	want := `{"arguments":{"name":"` + p.id() + `","up":false},"execute":"set_link"}`
	if first, second := <-asked, <-asked; first != `{"execute":"qmp_capabilities"}` || second != want {
		t.Errorf("QEMU was asked %s and %s", first, second)
	}
	test.ErrorContains(t, p.Carrier(true), "no such device", test.Sprint("what QEMU refused"))
}
