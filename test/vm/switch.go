package vm

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Switch is an Ethernet switch in this process. It forwards each frame from one port to all other ports. A test cuts
// it in the middle, delays it, and counts what it forwards.
type Switch struct {
	dir    string
	number int32

	mu    sync.Mutex
	ports []*Port
	cut   bool
	delay time.Duration
}

// Port is a port of a Switch. Cmd.Ports connects a network device of a guest to it.
type Port struct {
	sw       *Switch
	number   int
	listener net.Listener
	out      chan queued
	ended    chan struct{}

	mu   sync.Mutex
	conn net.Conn // nil until a guest is there
	sent map[Kind]Traffic
	lost Traffic
}

// Traffic is what went through a port.
type Traffic struct{ Frames, Bytes uint64 }

// Kind is what a frame carries.
type Kind int

// Frames are counted by what they carry.
const (
	Other Kind = iota
	RoCE       // RoCE v2, which is UDP to port 4791
	TCP
)

// queued is a frame on its way out of a port.
type queued struct {
	frame []byte
	due   time.Time
}

// maxFrame bounds what a guest may send at once, in bytes.
const maxFrame = 1 << 17

// switches numbers the switches of this process, for the hardware addresses.
var switches atomic.Int32

// NewSwitch returns a switch without ports. The caller closes it.
func NewSwitch() (*Switch, error) {
	dir, err := os.MkdirTemp("", "vm-switch-")
	if err != nil {
		return nil, fmt.Errorf("make the sockets' directory of a switch: %w", err)
	}
	return &Switch{dir: dir, number: switches.Add(1)}, nil
}

// Port adds a port.
func (s *Switch) Port() (*Port, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &Port{
		sw: s, number: len(s.ports), out: make(chan queued, 256), ended: make(chan struct{}), sent: map[Kind]Traffic{},
	}
	l, err := net.Listen("unix", p.socket())
	if err != nil {
		return nil, fmt.Errorf("listen at port %d of a switch: %w", p.number, err)
	}
	p.listener = l
	s.ports = append(s.ports, p)
	go p.serve()
	go p.deliver()
	return p, nil
}

// Cut drops each frame from now on, or ends that. The ports keep their carrier, so no guest is told.
func (s *Switch) Cut(cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = cut
}

// Delay holds back each frame that comes from now on.
func (s *Switch) Delay(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = by
}

// Close ends all ports.
func (s *Switch) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, p := range s.ports {
		errs = append(errs, p.close())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// Sent is what of a kind came from the port's guest and went on.
func (p *Port) Sent(kind Kind) Traffic {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent[kind]
}

// Lost is what came from the port's guest while the switch was cut.
func (p *Port) Lost() Traffic {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// MAC is the hardware address of the guest's network device.
func (p *Port) MAC() net.HardwareAddr {
	return net.HardwareAddr{0x52, 0x54, 0x00, 0x13, byte(p.sw.number), byte(p.number + 1)}
}

func (p *Port) socket() string { return filepath.Join(p.sw.dir, fmt.Sprintf("%d.frames", p.number)) }

func (p *Port) monitor() string { return filepath.Join(p.sw.dir, fmt.Sprintf("%d.qmp", p.number)) }

// id is QEMU's name of the guest's network device.
func (p *Port) id() string { return fmt.Sprintf("switch%dport%d", p.sw.number, p.number) }

// args are those of QEMU.
func (p *Port) args() []string {
	return []string{
		"-netdev", fmt.Sprintf("stream,id=%s,server=off,addr.type=unix,addr.path=%s", p.id(), p.socket()),
		"-device", fmt.Sprintf("virtio-net-pci,netdev=%s,romfile=,mac=%s", p.id(), p.MAC()),
		"-qmp", fmt.Sprintf("unix:%s,server=on,wait=off", p.monitor()),
	}
}

// serve forwards what the port's guest sends. A guest that is started again connects again.
func (p *Port) serve() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // close closed it
		}
		p.connect(conn)
		from := bufio.NewReaderSize(conn, maxFrame)
		for {
			frame, err := readFrame(from)
			if err != nil {
				break // the guest has ended
			}
			p.forward(frame)
		}
		conn.Close()
	}
}

func (p *Port) connect(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = conn
}

// readFrame reads a frame as QEMU sends it: after its length, four bytes in network order.
func readFrame(r io.Reader) ([]byte, error) {
	var length uint32
	if err := binary.Read(r, binary.BigEndian, &length); err != nil {
		return nil, err
	}
	if length > maxFrame {
		return nil, fmt.Errorf("read a frame of %d bytes: the limit is %d", length, maxFrame)
	}
	frame := make([]byte, length)
	_, err := io.ReadFull(r, frame)
	return frame, err
}

// forward passes a frame on to all other ports.
func (p *Port) forward(frame []byte) {
	p.sw.mu.Lock()
	cut, due, ports := p.sw.cut, time.Now().Add(p.sw.delay), p.sw.ports
	p.sw.mu.Unlock()
	p.count(frame, cut)
	if cut {
		return
	}
	for _, to := range ports {
		if to == p {
			continue
		}
		select {
		case to.out <- queued{frame, due}:
		case <-to.ended:
		}
	}
}

func (p *Port) count(frame []byte, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	add := func(t Traffic) Traffic { return Traffic{t.Frames + 1, t.Bytes + uint64(len(frame))} }
	if lost {
		p.lost = add(p.lost)
		return
	}
	kind := kindOf(frame)
	p.sent[kind] = add(p.sent[kind])
}

// deliver hands frames to the port's guest when they are due. What comes while there is no guest is lost.
func (p *Port) deliver() {
	for {
		select {
		case <-p.ended:
			return
		case q := <-p.out:
			if wait := time.Until(q.due); wait > 0 {
				time.Sleep(wait)
			}
			p.mu.Lock()
			conn := p.conn
			p.mu.Unlock()
			if conn != nil {
				_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(q.frame))), q.frame...))
			}
		}
	}
}

func (p *Port) close() error {
	close(p.ended)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		p.conn.Close()
	}
	return p.listener.Close()
}

// kindOf says what an Ethernet frame carries. A VLAN tag does not count.
func kindOf(frame []byte) Kind {
	const tcp, udp = 6, 17
	at := 12
	for len(frame) >= at+4 && binary.BigEndian.Uint16(frame[at:]) == 0x8100 {
		at += 4
	}
	if len(frame) < at+2+20 { // a header of IPv4
		return Other
	}
	packet := frame[at+2:]
	var protocol byte
	var header int // its length
	switch binary.BigEndian.Uint16(frame[at:]) {
	case 0x0800:
		protocol, header = packet[9], int(packet[0]&15)*4
	case 0x86dd:
		protocol, header = packet[6], 40
	}
	switch {
	case protocol == tcp:
		return TCP
	case protocol == udp && len(packet) >= header+4 && binary.BigEndian.Uint16(packet[header+2:]) == 4791:
		return RoCE
	}
	return Other
}
