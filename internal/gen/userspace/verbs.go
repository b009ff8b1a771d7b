package userspace

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// verbs contains the provider settings that are compiled into libibverbs.
type verbs struct {
	path        string // fs name, for messages
	abi         string
	providerDir string // absolute: VERBS_PROVIDER_DIR
	configDir   string // absolute: IBV_CONFIG_DIR
}

// The patterns match strings of load_driver and read_config in rdma-core's libibverbs/dynamic_driver.c.
var (
	providerFormat = regexp.MustCompile(`(?:^|\x00)(/[^\x00]*)/lib%s-rdmav([0-9]+)\.so\x00`)
	configPath     = regexp.MustCompile(`(?:^|\x00)(/[^\x00]*/libibverbs\.d)\x00`)
)

const privateVersion = "IBVERBS_PRIVATE_"

// readVerbs reads the provider settings that are compiled into libibverbs.
func readVerbs(lib *found) (verbs, error) {
	format, config := providerFormat.FindSubmatch(lib.rodata), configPath.FindSubmatch(lib.rodata)
	if format == nil || config == nil {
		return verbs{}, fmt.Errorf("read library /%s: no provider directory and no libibverbs.d compiled in: not the "+
			"libibverbs of rdma-core", lib.path)
	}
	v := verbs{path: lib.path, abi: string(format[2]), providerDir: path.Clean(string(format[1])),
		configDir: path.Clean(string(config[1]))}
	if !slices.Contains(lib.defines, privateVersion+v.abi) {
		return verbs{}, fmt.Errorf("read library /%s: it loads providers of private ABI %s, but does not define %s%s: "+
			"reinstall rdma-core", lib.path, v.abi, privateVersion, v.abi)
	}
	return v, nil
}

// file returns the absolute path where libibverbs looks first for a provider. A name with a slash is a path without the
// suffix.
func (v *verbs) file(driver string) string {
	if strings.HasPrefix(driver, "/") {
		return driver + v.suffix()
	}
	return path.Join(v.providerDir, "lib"+driver+v.suffix())
}

func (v *verbs) suffix() string { return "-rdmav" + v.abi + ".so" }

// installed lists the files in the provider directory of a root: the names of providers with this ABI, and the paths of
// files with other ABIs.
func (v *verbs) installed(root fs.ReadLinkFS) (drivers, others []string) {
	entries, _ := hostfs.ReadDir(root, v.providerDir, hostfs.MaxEntries)
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), "lib")
		if !ok {
			continue
		}
		if driver, ok := strings.CutSuffix(name, v.suffix()); ok {
			drivers = append(drivers, driver)
		} else if strings.Contains(name, "-rdmav") {
			others = append(others, path.Join(v.providerDir, e.Name()))
		}
	}
	return drivers, others
}

// maxConfig bounds the size of a file in the configuration directory, which has one line.
const maxConfig = 1 << 20

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
		data, err := hostfs.ReadFile(root, name, maxConfig)
		if err != nil {
			return nil, nil, fmt.Errorf("read the names of providers: %w", err)
		}
		drivers = append(drivers, parseDrivers(string(data))...)
	}
	slices.Sort(drivers)
	return slices.Compact(drivers), skipped, nil
}

// parseDrivers returns the names in one file of the configuration directory.
func parseDrivers(data string) []string {
	var names []string
	for line := range strings.Lines(data) {
		fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' })
		if len(fields) >= 2 && fields[0] == "driver" {
			names = append(names, fields[1])
		}
	}
	return names
}
