package podnet

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
)

// The settings below /proc/sys/net/ipv6/conf cannot be set by rtnetlink. Like those of IPv4, an interface loses them
// when it moves to another namespace.

// guarded are the IPv6 settings of an interface in a pod. A router on the fabric must not give the pod more than the
// class allows: addresses, routes, or the default route of the pod.
var guarded = map[string]string{"accept_ra": "0"}

// GuardsIPv6 returns why this process cannot set the IPv6 settings of interfaces in pods, nil if it can.
func (h *Host) GuardsIPv6() error {
	return h.own.Do(func() error {
		sysctls, err := rdmanetns.Sysctls()
		if err == nil {
			err = sysctls.Close()
		}
		return err
	})
}

// setGuarded sets the IPv6 settings of an interface in the thread's namespace, and reads them back. It does nothing if
// the interface has no IPv6. It must be called before the interface is up. It is idempotent.
func setGuarded(link string) error {
	err := withIPv6Conf(link, func(dir *os.Root) error { return setSysctls(dir, guarded) })
	if err != nil {
		return fmt.Errorf("set net.ipv6.conf.%s.accept_ra to 0, so that routers give the pod no addresses and routes: %w",
			link, err)
	}
	return nil
}

// ipv6ConfOf returns the IPv6 settings of an interface in the thread's namespace that can be written, by name. It
// returns nothing if the interface has no IPv6, or if this process may not mount a procfs.
func ipv6ConfOf(link string) (map[string]string, error) {
	out := map[string]string{}
	err := withIPv6Conf(link, func(dir *os.Root) error {
		files, err := fs.ReadDir(dir.FS(), ".")
		for _, file := range files {
			info, err := file.Info()
			if err != nil || !info.Mode().IsRegular() || info.Mode()&0o200 == 0 {
				continue
			}
			if value, err := dir.ReadFile(file.Name()); err == nil { // stable_secret has none until it is set
				out[file.Name()] = strings.TrimSpace(string(value))
			}
		}
		return err
	})
	if errors.Is(err, fs.ErrPermission) { // attaching reports it
		return nil, nil
	}
	return out, err
}

// restoreIPv6Conf restores the settings of ipv6ConfOf. It is idempotent.
func restoreIPv6Conf(link string, want map[string]string) error {
	if len(want) == 0 {
		return nil
	}
	return withIPv6Conf(link, func(dir *os.Root) error { return setSysctls(dir, want) })
}

// withIPv6Conf calls f with the directory of an interface's settings in the thread's namespace, if there is one.
func withIPv6Conf(link string, f func(*os.Root) error) error {
	sysctls, err := rdmanetns.Sysctls()
	if err != nil {
		return err
	}
	defer sysctls.Close()
	dir, err := sysctls.OpenRoot(path.Join("ipv6/conf", link))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return f(dir)
}

// setSysctls writes the settings that differ, and reads them back. It continues after an error. The secret is first: a
// mode of addr_gen_mode needs it.
func setSysctls(dir *os.Root, want map[string]string) error {
	var errs []error
	for _, name := range append([]string{"stable_secret"}, slices.Sorted(maps.Keys(want))...) {
		if value, ok := want[name]; ok {
			errs = append(errs, setSysctl(dir, name, value))
		}
	}
	return errors.Join(errs...)
}

func setSysctl(dir *os.Root, name, want string) error {
	has := func() bool {
		data, err := dir.ReadFile(name)
		return err == nil && strings.TrimSpace(string(data)) == want
	}
	if has() {
		return nil
	}
	file, err := dir.OpenFile(name, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) { // another kernel
		return nil
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString(want)
	if err = errors.Join(err, file.Close()); err == nil && !has() {
		err = fmt.Errorf("set %s to %s: the kernel has another value", name, want)
	}
	return err
}
