package hook

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
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

func (f fakeDevices) CheckNodes([]NodeOwner) (string, error) { return "", nil }

func (f fakeDevices) Alias(_ int, name string, _ time.Time) (string, bool, error) {
	alias, ok := f.owners[name]
	return alias, ok, f.err
}

func TestCheckPresences(t *testing.T) {
	want := []Presence{{"mlx5_0", "uverbs0"}, {"mlx5_1", "uverbs1"}}
	owners := map[string]string{"uverbs0": "mlx5_0", "uverbs1": "mlx5_1"}
	for name, c := range map[string]struct {
		devices fakeDevices
		says    string // "" for no error
	}{
		"all there":       {fakeDevices{here: []string{"mlx5_1", "mlx5_0"}, owners: owners}, ""},
		"one not moved":   {fakeDevices{here: []string{"mlx5_1"}, owners: owners}, "RDMA device mlx5_0 of the claim is not in the pod's network namespace"},
		"a longer name":   {fakeDevices{here: []string{"mlx5_10", "mlx5_1"}, owners: owners}, "mlx5_0"},
		"renumbered":      {fakeDevices{here: []string{"mlx5_0", "mlx5_1"}, owners: map[string]string{"uverbs0": "mlx5_1", "uverbs1": "mlx5_1"}}, "node uverbs0 is not that of RDMA device mlx5_0"},
		"node gone":       {fakeDevices{here: []string{"mlx5_0", "mlx5_1"}, owners: map[string]string{"uverbs0": "mlx5_0"}}, "node uverbs1"},
		"cannot find out": {fakeDevices{err: os.ErrPermission}, "look for RDMA devices in the container's network namespace: permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckPresences(c.devices, 1, want, time.Now().Add(time.Second))
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
}

func TestParsePresence(t *testing.T) {
	if p, err := ParsePresence("mlx5_0:uverbs12"); err != nil || p != (Presence{"mlx5_0", "uverbs12"}) {
		t.Errorf("%v, %v", p, err)
	}
	for _, bad := range []string{"", "mlx5_0", "mlx5_0:", ":uverbs0", "mlx5_0:umad0", "mlx5_0:uverbs0/../x"} {
		if p, err := ParsePresence(bad); err == nil {
			t.Errorf("%q is taken for %v", bad, p)
		}
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
	packets := [][]byte{append(device("mlx5_0"), device("rocep1s0")...), device("mlx5_1"), message(unix.NLMSG_DONE, make([]byte, 4))}
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
