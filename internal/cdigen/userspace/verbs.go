package userspace

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/rdmacore"
)

// installed lists the files in the provider directory of libibverbs in a root: the names of providers with this ABI,
// and the paths of files with other ABIs.
func installed(root fs.ReadLinkFS, v *rdmacore.Verbs) (drivers, others []string) {
	entries, _ := hostfs.ReadDir(root, v.ProviderDir, hostfs.MaxEntries)
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), "lib")
		if !ok {
			continue
		}
		if driver, ok := strings.CutSuffix(name, v.Suffix()); ok {
			drivers = append(drivers, driver)
		} else if strings.Contains(name, "-rdmav") {
			others = append(others, path.Join(v.ProviderDir, e.Name()))
		}
	}
	return drivers, others
}

// readConfig reads the names of providers as libibverbs does (read_config_file): each line is "driver NAME", and #
// begins a comment. It returns them sorted. It skips symbolic links, and returns them too: the directory is mounted in
// the container, where a link would resolve in the image.
func readConfig(root fs.ReadLinkFS, dir string) (drivers, skipped []string, err error) {
	entries, err := hostfs.ReadDir(root, dir, hostfs.MaxEntries)
	if err != nil {
		return nil, nil, fmt.Errorf("read the names of providers: %w", err)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.Type()&fs.ModeSymlink != 0 {
			skipped = append(skipped, "/"+name)
		}
		if !e.Type().IsRegular() {
			continue
		}
		data, err := hostfs.ReadFile(root, name, rdmacore.MaxConfig)
		if err != nil {
			return nil, nil, fmt.Errorf("read the names of providers: %w", err)
		}
		drivers = append(drivers, rdmacore.ParseDrivers(string(data))...)
	}
	slices.Sort(drivers)
	return slices.Compact(drivers), skipped, nil
}
