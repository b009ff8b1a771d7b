package podnet

import (
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

// program loads a program of eBPF that does nothing, and returns its file.
func program(t *testing.T, kind, attach uint32) int {
	t.Helper()
	instructions := [...]uint64{0x00000000_0000_00_b7 | 2<<32, 0x95} // r0 = 2 (XDP_PASS); exit
	license := [...]byte{'G', 'P', 'L', 0}
	attr := struct {
		kind, count           uint32
		instructions, license uint64
		_                     [48]byte
	}{kind: kind, count: uint32(len(instructions)), instructions: uint64(uintptr(unsafe.Pointer(&instructions))),
		license: uint64(uintptr(unsafe.Pointer(&license)))}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	must.Eq(t, 0, errno, must.Sprint("load a program"))
	t.Cleanup(func() { unix.Close(int(fd)) })
	return int(fd)
}

// attachProgram attaches a program to an interface of the thread's namespace in a way that outlives its process, and by
// a link of eBPF if there is one to be held.
func attachProgram(t *testing.T, link netlink.Link, how string) error {
	index := uint32(link.Attrs().Index)
	switch how {
	case "xdp", "xdp generic":
		flags := map[string]int{"xdp": unix.XDP_FLAGS_DRV_MODE, "xdp generic": unix.XDP_FLAGS_SKB_MODE}[how]
		return netlink.LinkSetXdpFdWithFlags(link, program(t, unix.BPF_PROG_TYPE_XDP, 0), flags)
	case "tcx":
		for _, direction := range tcx {
			d := tcxDetach{index: index, program: uint32(program(t, unix.BPF_PROG_TYPE_SCHED_CLS, 0)), attachType: direction}
			if err := bpf(unix.BPF_PROG_ATTACH, unsafe.Pointer(&d), unsafe.Sizeof(d)); err != nil {
				return err
			}
		}
		return nil
	}
	attr := struct {
		program, index, attachType, flags uint32
		_                                 [32]byte
	}{program: uint32(program(t, unix.BPF_PROG_TYPE_SCHED_CLS, 0)), index: index, attachType: unix.BPF_TCX_INGRESS}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_LINK_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return errno
	}
	held = append(held, int(fd))
	return nil
}

// held are links of eBPF that a process has.
var held []int

// moved makes two namespaces, and moves an interface of the first one to the second.
func moved(t *testing.T) (host, pod *podnettest.Namespace, h *Host, o Original, w Want) {
	t.Helper()
	host, pod = podnettest.New(t), podnettest.New(t)
	host.Wire("ens1")
	h = On(host.Namespace, "rdma.dev", nil)
	w = Want{Mode: Move, Name: "rdma0", Alias: "rdma.dev/claim/1/nic"}
	o, err := h.Inspect("ens1", "", Move)
	if err == nil {
		_, err = h.Attach(pod.Path(), o, w)
	}
	must.NoError(t, err)
	return host, pod, h, o, w
}

// TestPrograms: programs of eBPF that a pod has attached do not come to the host, and an interface on which the host
// has some is not given away. One that a process holds is reported as long as it is there.
func TestPrograms(t *testing.T) {
	for _, how := range []string{"xdp", "xdp generic", "tcx", "link"} {
		t.Run(how, func(t *testing.T) {
			host, pod, h, o, w := moved(t)
			on := func(n *podnettest.Namespace, name string, f func(netlink.Link) error) error {
				return n.Do(func() error {
					link, err := netlink.LinkByName(name)
					if err != nil {
						return err
					}
					return f(link)
				})
			}
			must.NoError(t, on(pod, "rdma0", func(l netlink.Link) error { return attachProgram(t, l, how) }))
			if how == "link" {
				test.ErrorContains(t, h.Detach(pod.Path(), o, w), "the kernel keeps 1 of them on it")
				for _, fd := range held { // the process ends
					unix.Close(fd)
				}
			}
			must.NoError(t, h.Detach(pod.Path(), o, w))
			left := func(l netlink.Link) error {
				if n, err := programsOf(l); n != 0 || err != nil {
					t.Errorf("%d programs are on the host's interface, %v", n, err)
				}
				return attachProgram(t, l, how)
			}
			must.NoError(t, on(host, "ens1", left))
			if _, err := h.Usable("ens1", "", Move, 0); err == nil ||
				!strings.Contains(err.Error(), "eBPF programs (XDP or tcx)") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestEthtool: settings of a driver that a pod has changed are as they were. What veth and tap have of them is real
// here.
func TestEthtool(t *testing.T) {
	n := podnettest.New(t)
	n.IP("tuntap add dev tap0 mode tap")
	n.IP("link add ens1 numtxqueues 4 numrxqueues 4 type veth peer name wire numtxqueues 4 numrxqueues 4")
	for _, tc := range []struct {
		link, setting string
		change        func([]uint32) // of all words
	}{
		{"ens1", "features", func(w []uint32) { w[2+1] &^= 1 }}, // scatter and gather
		{"ens1", "channels", func(w []uint32) { w[5], w[6] = 2, 3 }},
		{"tap0", "coalescing", func(w []uint32) { w[2] = 9 }},
		{"tap0", "message level", func(w []uint32) { w[1] ^= 1 }},
	} {
		err := n.Do(func() error {
			before, err := ethtoolOf(tc.link)
			if err != nil {
				return err
			}
			e, err := newEthtool(tc.link)
			if err != nil {
				return err
			}
			defer e.close()
			i := slices.IndexFunc(settings[:], func(s setting) bool { return s.name == tc.setting })
			s := &settings[i]
			words, err := e.read(s)
			if err != nil {
				return err
			}
			changed := slices.Clone(words)
			tc.change(changed)
			if err := e.do(s.with(words, s.settable(changed))); err != nil {
				return err
			}
			now, err := ethtoolOf(tc.link)
			if slices.Equal(now[tc.setting], before[tc.setting]) || err != nil {
				t.Errorf("%s: not changed, %v", tc.setting, err)
			}
			if err := setEthtool(tc.link, before); err != nil {
				return err
			}
			now, err = ethtoolOf(tc.link)
			test.SliceEqOp(t, before[tc.setting], now[tc.setting], test.Sprintf("%s", tc.setting))
			return err
		})
		test.NoError(t, err, test.Sprintf("%s of %s", tc.setting, tc.link))
	}
}

// TestEthtoolGivenBack: what a pod has set by ethtool is as before when the interface is back.
func TestEthtoolGivenBack(t *testing.T) {
	host, pod, h, o, w := moved(t)
	before := o.Ethtool["features"]
	changed := slices.Clone(before)
	changed[0] &^= 1 // scatter and gather
	must.NoError(t, pod.Do(func() error { return setEthtool("rdma0", map[string][]uint32{"features": changed}) }))
	must.NoError(t, h.Detach(pod.Path(), o, w))
	err := host.Do(func() error {
		now, err := ethtoolOf("ens1")
		test.SliceEqOp(t, before, now["features"], test.Sprint("features"))
		return err
	})
	test.NoError(t, err)
}
