package doctor

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// modules is what depmod's files say about the RDMA drivers of the running kernel. A driver that is built into the
// kernel is not in these files.
type modules struct {
	unknown error               // why the files say nothing; nil if they were read
	rdma    map[string]bool     // drivers that create RDMA devices, or need ib_core
	aux     map[string]string   // RDMA driver, by the match name of an auxiliary device (mlx5_core.rdma)
	users   map[string][]string // RDMA drivers, by a module that they need
	pci     map[string][]alias  // of PCI functions, by the first characters of a modalias, which hold the vendor
}

// alias is a line of modules.alias.
type alias struct{ pattern, module string }

// vendorPart is the length of "pci:v000015B3".
const vendorPart = len("pci:v") + 8

// readModules reads the files of the running kernel.
func readModules(host *reader) *modules {
	m := &modules{rdma: map[string]bool{}, aux: map[string]string{}, users: map[string][]string{},
		pci: map[string][]alias{}}
	release := host.kernelRelease()
	if release == "" {
		m.unknown = fmt.Errorf("%s cannot be read, so the running kernel is unknown", osrelease)
		return m
	}
	dir := path.Join("/lib/modules", path.Base(release))
	for _, file := range []struct {
		name string
		read func(line string)
	}{{"modules.dep", m.addDependencies}, {"modules.alias", m.addAlias}} { // in this order: aliases need to know rdma
		text, ok := host.optional(path.Join(dir, file.name))
		if !ok {
			m.unknown = fmt.Errorf("%s cannot be read", path.Join(dir, file.name))
			return m
		}
		for line := range strings.Lines(text) {
			file.read(line)
		}
	}
	if len(m.rdma) == 0 {
		m.unknown = fmt.Errorf("%s names no RDMA driver", path.Join(dir, "modules.dep"))
	}
	return m
}

// addDependencies reads "kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko.xz: ... kernel/.../ib_core.ko.xz". depmod lists
// indirect dependencies too. A driver from outside of the kernel's tree is an RDMA driver if it needs ib_core.
func (m *modules) addDependencies(line string) {
	file, needs, _ := strings.Cut(line, ":")
	module := moduleName(file)
	var names []string
	for n := range strings.FieldsSeq(needs) {
		names = append(names, moduleName(n))
	}
	if !strings.Contains(file, "/infiniband/") && !slices.Contains(names, "ib_core") {
		return
	}
	m.rdma[module] = true
	for _, n := range names {
		m.users[n] = append(m.users[n], module)
	}
}

// moduleName returns the name under which the kernel knows the module of a file.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// addAlias reads "alias pci:v000015B3d00001021sv*sd*bc*sc*i* mlx5_core".
func (m *modules) addAlias(line string) {
	fields := strings.Fields(line)
	if len(fields) != 3 || fields[0] != "alias" {
		return
	}
	a := alias{fields[1], strings.ReplaceAll(fields[2], "-", "_")}
	if name, ok := strings.CutPrefix(a.pattern, "auxiliary:"); ok && m.rdma[a.module] {
		m.aux[name] = a.module
	}
	if strings.HasPrefix(a.pattern, "pci:v") && len(a.pattern) > vendorPart {
		m.pci[a.pattern[:vendorPart]] = append(m.pci[a.pattern[:vendorPart]], a)
	}
}

// of returns the modules that the kernel loads for a PCI function.
func (m *modules) of(modalias string) []string {
	var out []string
	for _, a := range m.pci[modalias[:min(vendorPart, len(modalias))]] {
		if ok, err := path.Match(a.pattern, modalias); ok && err == nil && !slices.Contains(out, a.module) {
			out = append(out, a.module)
		}
	}
	return out
}

// byAux returns the RDMA driver that binds auxiliary devices of a driver: mlx5_ib those of mlx5_core. It returns "" if
// there is none.
func (m *modules) byAux(driver string) string {
	for _, name := range slices.Sorted(maps.Keys(m.aux)) {
		if strings.HasPrefix(name, driver+".") {
			return m.aux[name]
		}
	}
	return ""
}

// creator returns the RDMA driver for a PCI function whose aliases lead to candidates: one of them, or one that binds
// their auxiliary devices. Kernels before 5.11 have no auxiliary devices; there, an InfiniBand function gets the driver
// that needs a candidate. It returns "" if the kernel knows none.
func (m *modules) creator(candidates []string, infiniBand bool) string {
	for _, c := range candidates {
		if m.rdma[c] {
			return c
		}
	}
	for _, c := range candidates {
		if module := m.byAux(c); module != "" {
			return module
		}
	}
	for _, c := range candidates {
		if users := m.users[c]; infiniBand && len(users) > 0 {
			return users[0]
		}
	}
	return ""
}
