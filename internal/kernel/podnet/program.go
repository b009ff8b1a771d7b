package podnet

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// eBPF programs stay on an interface that changes its namespace: XDP, and tcx programs (from Linux 6.6 on), which need
// no qdisc. Qdiscs and tc filters end with the namespace.

// tcx are the directions of traffic.
var tcx = [...]uint32{unix.BPF_TCX_INGRESS, unix.BPF_TCX_EGRESS}

// tcxQuery is the kernel's union bpf_attr for BPF_PROG_QUERY.
type tcxQuery struct {
	index, attachType, flags, attachFlags uint32
	programs                              uint64
	count, _                              uint32
	programFlags, links, linkFlags        uint64
	revision                              uint64
}

// tcxDetach is the kernel's union bpf_attr for BPF_PROG_DETACH.
type tcxDetach struct {
	index, program, attachType, flags, replace, relative uint32
	revision                                             uint64
}

// first selects the first program, whichever it is (BPF_F_BEFORE).
const first = 1 << 3

func bpf(command uintptr, attr unsafe.Pointer, size uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size); errno != 0 {
		return errno
	}
	return nil
}

// programsOf counts the eBPF programs of an interface in the thread's namespace.
func programsOf(link netlink.Link) (count int, err error) {
	if xdp := link.Attrs().Xdp; xdp != nil && xdp.Attached {
		count = 1
	}
	for _, direction := range tcx {
		q := tcxQuery{index: uint32(link.Attrs().Index), attachType: direction}
		err := bpf(unix.BPF_PROG_QUERY, unsafe.Pointer(&q), unsafe.Sizeof(q))
		switch {
		case errors.Is(err, unix.ENOENT): // it never had a program
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
			return count, nil // the kernel has no such programs
		case err != nil:
			return count, fmt.Errorf("query eBPF programs: %w", err)
		default:
			count += int(q.count)
		}
	}
	return count, nil
}

// removePrograms removes all eBPF programs from an interface of the host. A pod can keep a program there with an eBPF
// link, until its last process ends.
func removePrograms(link netlink.Link) error {
	if n, err := programsOf(link); n == 0 || err != nil {
		return err
	}
	if xdp := link.Attrs().Xdp; xdp != nil && xdp.Attached {
		for _, mode := range []int{unix.XDP_FLAGS_SKB_MODE, unix.XDP_FLAGS_DRV_MODE, unix.XDP_FLAGS_HW_MODE} {
			_ = netlink.LinkSetXdpFdWithFlags(link, -1, mode) // fails for modes without a program; counted below
		}
	}
	for _, direction := range tcx {
		d := tcxDetach{index: uint32(link.Attrs().Index), attachType: direction, flags: first}
		for bpf(unix.BPF_PROG_DETACH, unsafe.Pointer(&d), unsafe.Sizeof(d)) == nil {
			runtime.KeepAlive(&d)
		}
	}
	link, err := linkByIndex(link.Attrs().Index)
	if err != nil {
		return err
	}
	left, err := programsOf(link)
	if err == nil && left > 0 {
		err = fmt.Errorf("the kernel keeps %d of them on it until the process that attached them ends", left)
	}
	return err
}
