package testbed

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// SwapUverbs exchanges the numbers of the uverbs nodes of two HCAs, as a reload of their
// drivers in another order does, until the test ends, and has the kernel say that
// something happened to them.
func (b *Bed) SwapUverbs(t *testing.T, one, other string) {
	t.Helper()
	b.swapUverbs(t, one, other)
	t.Cleanup(func() { b.swapUverbs(t, one, other) })
}

func (b *Bed) swapUverbs(t *testing.T, one, other string) {
	t.Helper()
	sys := filepath.Join(b.HostRoot, "sys")
	class := filepath.Join(sys, "class/infiniband_verbs")
	var dirs, names [2]string
	for i, device := range []string{one, other} {
		names[i] = b.HostHCA(t, device).Uverbs
		dir, err := filepath.EvalSymlinks(filepath.Join(class, names[i]))
		must.NoError(t, err)
		dirs[i] = dir
	}
	// What belongs to the number goes with it; the rest, such as ibdev, stays.
	for _, file := range []string{"dev", "uevent"} {
		first, second := ReadFile(t, filepath.Join(dirs[0], file)), ReadFile(t, filepath.Join(dirs[1], file))
		write(t, filepath.Join(dirs[0], file), second)
		write(t, filepath.Join(dirs[1], file), first)
	}
	for i, dir := range dirs {
		now := filepath.Join(filepath.Dir(dir), names[1-i])
		link := filepath.Join(class, names[1-i])
		target, err := filepath.Rel(class, now)
		must.NoError(t, err)
		must.NoError(t, os.Rename(dir, now))
		must.NoError(t, os.Remove(link))
		must.NoError(t, os.Symlink(target, link))
	}
	b.LinkEvent(t, one)
	b.LinkEvent(t, other)
}

// LinkEvent has the kernel tell of the network interface of an HCA. That of a fixture
// exists in its sysfs alone, so one of its name comes and goes.
func (b *Bed) LinkEvent(t *testing.T, device string) {
	t.Helper()
	name := only(t, filepath.Join(b.HostRoot, "sys/bus/pci/devices", address(device), "net"))
	b.Inside(t, "ip", "link", "add", name, "type", "veth", "peer", "name", "of-"+device[len(device)-7:])
	b.Inside(t, "ip", "link", "delete", name)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}
