package hook

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

type fakeDevices struct {
	here   []string
	owners map[string]string
	err    error
}

func (f fakeDevices) Here(int, time.Time) ([]string, error) { return f.here, f.err }
func (f fakeDevices) OwnerOf(uverbs string) (string, error) {
	if owner, ok := f.owners[uverbs]; ok {
		return owner, nil
	}
	return "", os.ErrNotExist
}

func (f fakeDevices) CheckNodes([]args.NodeOwner) (string, error) { return "", nil }

func (f fakeDevices) Alias(_ int, name string, _ time.Time) (string, bool, error) {
	alias, ok := f.owners[name]
	return alias, ok, f.err
}

func TestCheckPresences(t *testing.T) {
	want := []args.Presence{{IBDev: "mlx5_0", Uverbs: "uverbs0"}, {IBDev: "mlx5_1", Uverbs: "uverbs1"}}
	owners := map[string]string{"uverbs0": "mlx5_0", "uverbs1": "mlx5_1"}
	for name, c := range map[string]struct {
		devices fakeDevices
		says    string // "" for no error
	}{
		"all there": {fakeDevices{here: []string{"mlx5_1", "mlx5_0"}, owners: owners}, ""},
		"one not moved": {fakeDevices{here: []string{"mlx5_1"}, owners: owners},
			"RDMA device mlx5_0 of the claim is not in the pod's network namespace"},
		"a longer name": {fakeDevices{here: []string{"mlx5_10", "mlx5_1"}, owners: owners}, "mlx5_0"},
		"renumbered": {fakeDevices{here: []string{"mlx5_0", "mlx5_1"},
			owners: map[string]string{"uverbs0": "mlx5_1", "uverbs1": "mlx5_1"}}, "node uverbs0 is not that of RDMA device " +
			"mlx5_0"},
		"node gone": {fakeDevices{here: []string{"mlx5_0", "mlx5_1"}, owners: map[string]string{"uverbs0": "mlx5_0"}},
			"node uverbs1"},
		"cannot find out": {fakeDevices{err: os.ErrPermission},
			"look for RDMA devices in the container's network namespace: permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckPresences(c.devices, 1, want, time.Now().Add(time.Second))
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
}

// device is a message of the kernel's list.
func device(name string) []byte {
	attrs := []byte{8, 0, 1, 0, 7, 0, 0, 0} // RDMA_NLDEV_ATTR_DEV_INDEX
	value := append([]byte(name), 0)
	attr := unix.NlAttr{Len: uint16(unix.SizeofNlAttr + len(value)), Type: attrDeviceName}
	attrs = append(attrs, unsafe.Slice((*byte)(unsafe.Pointer(&attr)), unix.SizeofNlAttr)...)
	attrs = append(attrs, value...)
	for len(attrs)%unix.NLA_ALIGNTO != 0 {
		attrs = append(attrs, 0)
	}
	return message(rdmaGetDevices, attrs)
}

func message(kind uint16, data []byte) []byte {
	h := unix.NlMsghdr{Len: uint32(unix.NLMSG_HDRLEN + len(data)), Type: kind}
	return append(unsafe.Slice((*byte)(unsafe.Pointer(&h)), unix.NLMSG_HDRLEN), data...)
}

func TestReadNames(t *testing.T) {
	packets := [][]byte{append(device("mlx5_0"), device("rocep1s0")...), device("mlx5_1"),
		message(unix.NLMSG_DONE, make([]byte, 4))}
	read := func(b []byte) (int, error) {
		if len(packets) == 0 {
			return 0, unix.EAGAIN
		}
		n := copy(b, packets[0])
		packets = packets[1:]
		return n, nil
	}
	names, err := readNames(read)
	if err != nil || strings.Join(names, " ") != "mlx5_0 rocep1s0 mlx5_1" {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := readNames(read); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("no end, and the error is %v", err)
	}
	packets = [][]byte{message(unix.NLMSG_ERROR, make([]byte, 20))}
	if _, err := readNames(read); err == nil {
		t.Error("the kernel refused, and there is no error")
	}
}

// status is the data of a message that ends a list, or refuses one.
func status(errno unix.Errno) []byte {
	code := -int32(errno)
	return append(unsafe.Slice((*byte)(unsafe.Pointer(&code)), 4), make([]byte, 16)...)
}

// A list that the kernel broke off, or could not make in one piece, is none: a device that
// is missing from it may be there.
func TestReadNamesOfAnIncompleteList(t *testing.T) {
	interrupted := message(rdmaGetDevices, device("mlx5_0")[unix.NLMSG_HDRLEN:])
	(*unix.NlMsghdr)(unsafe.Pointer(&interrupted[0])).Flags |= unix.NLM_F_DUMP_INTR
	for name, c := range map[string]struct {
		packet []byte
		err    error
	}{
		"broken off":        {append(device("mlx5_0"), message(unix.NLMSG_DONE, status(unix.ENOMEM))...), unix.ENOMEM},
		"refused":           {message(unix.NLMSG_ERROR, status(unix.EPERM)), unix.EPERM},
		"interrupted":       {append(interrupted, message(unix.NLMSG_DONE, status(0))...), errInterrupted},
		"whole":             {append(device("mlx5_0"), message(unix.NLMSG_DONE, status(0))...), nil},
		"whole, older":      {append(device("mlx5_0"), message(unix.NLMSG_DONE, nil)...), nil},
		"acknowledgement":   {message(unix.NLMSG_ERROR, status(0)), errMessage},
		"error of no use":   {message(unix.NLMSG_ERROR, nil), errMessage},
		"messages got lost": {message(unix.NLMSG_OVERRUN, nil), errMessage},
	} {
		names, err := readNames(func(b []byte) (int, error) { return copy(b, c.packet), nil })
		if !errors.Is(err, c.err) || err == nil && strings.Join(names, " ") != "mlx5_0" || err != nil && names != nil {
			t.Errorf("%s: %q, %v; want %v", name, names, err, c.err)
		}
	}
}

// An interrupted list is asked for again, and not forever.
func TestRetryInterrupted(t *testing.T) {
	asked := 0
	names, err := retry(func() ([]string, error) {
		if asked++; asked < 3 {
			return nil, wrap("read", errInterrupted)
		}
		return []string{"mlx5_0"}, nil
	})
	if err != nil || asked != 3 || len(names) != 1 {
		t.Errorf("asked %d times, %v, %v", asked, names, err)
	}
	asked = 0
	if _, err := retry(func() ([]string, error) { asked++; return nil, errInterrupted }); !errors.Is(err,
		errInterrupted) || asked > 10 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

// Only the kernel's messages count: a process of the pod with CAP_NET_ADMIN can send others
// to the socket, whose number is that of the process.
func TestReceiveFromTheKernel(t *testing.T) {
	needs.Root(t, "CAP_NET_ADMIN")
	open := func() int {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		must.NoError(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		must.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}))
		return fd
	}
	fd, forger := open(), open()
	must.NoError(t, unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	own, err := unix.Getsockname(fd)
	must.NoError(t, err)
	forged := message(unix.RTM_NEWLINK, make([]byte, unix.SizeofIfInfomsg))
	must.NoError(t, unix.Sendto(forger, forged, 0, own))
	must.NoError(t, unix.Sendto(fd, linkRequest("lo"), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	buf := make([]byte, 64<<10)
	n, err := receive(fd)(buf)
	if err != nil || n <= len(forged) {
		t.Errorf("%d bytes, %v; want the kernel's answer, which is longer than %d", n, err, len(forged))
	}
}

func FuzzReadNames(f *testing.F) {
	f.Add(append(device("mlx5_0"), message(unix.NLMSG_DONE, nil)...))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		left := 2
		_, _ = readNames(func(b []byte) (int, error) {
			if left--; left < 0 {
				return 0, unix.EAGAIN
			}
			return copy(b, data), nil
		})
	})
}
