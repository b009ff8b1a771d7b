package usable

import (
	"debug/elf"
	"errors"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/rdmacore"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// libraries are what a container has of rdma-core. They are read once, with the first HCA.
type libraries struct {
	root *Root
	env  environment

	read    bool
	reason  string // why providers are not checked
	linker  *rdmacore.Linker
	verbs   rdmacore.Verbs
	results map[string]finding.Finding // by provider
	lacks   string                     // a library that libibverbs needs, and the container lacks
}

// check checks the provider of an HCA.
func (l *libraries) check(h args.HCA) finding.Finding {
	name, known := rdmacore.ProviderOf(h.Driver)
	if !known {
		return record.Provider.Found(finding.NotSeen, "no provider is known for the kernel driver "+quote(h.Driver)).
			About(h.IBDev)
	}
	if !l.read {
		l.read = true
		l.reason = l.findVerbs()
	}
	if l.reason != "" {
		return record.Provider.Found(finding.NotSeen, l.reason).About(h.IBDev)
	}
	if c, ok := l.results[name]; ok {
		return c.About(h.IBDev)
	}
	severity, message, remedy := l.provider(name)
	c := record.Provider.Found(severity, message).About(h.IBDev).Do(remedy)
	if c.Severity == finding.Warning {
		c.Message = "libibverbs of the container cannot use HCAs of driver " + quote(h.Driver) + ": " + c.Message
		if l.env.get("LD_LIBRARY_PATH")+l.env.get("IBV_DRIVERS")+l.env.get("RDMAV_DRIVERS") == "" {
			c.Severity = finding.Error
		}
	}
	l.results[name] = c
	return c
}

// machine is that of the host, and so of its containers.
var machine = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]

// findVerbs finds the libibverbs that programs load. It returns why providers are not checked, "" if they are.
func (l *libraries) findVerbs() (reason string) {
	if strings.Contains(l.env.get("LD_PRELOAD"), "ibverbs") {
		return "LD_PRELOAD names a libibverbs"
	}
	for _, dir := range l.env.libraryPath() {
		if l.root.exists(path.Join(dir, rdmacore.VerbsLibrary)) {
			return "LD_LIBRARY_PATH has a libibverbs, in " + quote(dir)
		}
	}
	var cache rdmacore.Cache
	data, err := l.root.read("etc/ld.so.cache", maxCache)
	switch {
	case err == nil:
		cache, _ = rdmacore.ParseCache(data)
	case !isMissing(err):
		return "the container's /etc/ld.so.cache cannot be read: " + err.Error()
	}
	if l.linker, err = rdmacore.NewLinker(machine, cache, l.object); err != nil {
		return err.Error()
	}
	lib, at, err := l.linker.Find(rdmacore.VerbsLibrary)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "the container has no libibverbs where programs look for it"
	case err != nil:
		return "the container's libibverbs cannot be read: " + quote(err.Error())
	case !slices.Contains(l.linker.Dirs, path.Dir(at)):
		return "the container's libibverbs is in a directory of its own: " + quote("/"+at)
	}
	if l.verbs, err = rdmacore.ReadVerbs(lib, at); err != nil {
		return "the container's libibverbs is not understood: " + quote(err.Error())
	}
	l.lacks = l.missing(lib)
	return ""
}

// object reads a library.
func (l *libraries) object(name string) (*rdmacore.Object, error) {
	fd, err := l.root.reopen(name, unix.S_IFREG, maxLibrary)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return rdmacore.ParseObject(l.root.file(fd), machine)
}

// provider checks one provider.
func (l *libraries) provider(name string) (result finding.Severity, message, remedy string) {
	if l.lacks != "" {
		return finding.Warning, "libibverbs needs " + quote(l.lacks) + ", which the container lacks", installDependency
	}
	configured, err := l.configured(name)
	if err != nil {
		return finding.NotSeen, "the names of providers in " + quote(l.verbs.ConfigDir) + " cannot be read: " +
			err.Error(), ""
	}
	lib, at, err := l.find(name)
	switch {
	case isMissing(err) || errors.Is(err, fs.ErrNotExist):
		return l.absent(name, configured)
	case errors.Is(err, rdmacore.ErrOtherMachine):
		return finding.Warning, "its provider " + quote(at) + " is for another machine", installProviders
	case err != nil:
		return finding.NotSeen, "the provider " + quote(at) + " cannot be read: " + quote(err.Error()), ""
	case !configured:
		return finding.Warning, "no file in " + quote(l.verbs.ConfigDir) + " names the provider " + name +
			", so libibverbs does not load " +
			quote(at), `write the line "driver ` + name + `" into ` + quote(l.verbs.ConfigDir+"/"+name+".driver")
	}
	needs := lib.Needs[rdmacore.VerbsLibrary]
	private := func(v string) bool { return strings.HasPrefix(v, rdmacore.PrivateVersion) }
	switch {
	case slices.Contains(needs, rdmacore.PrivateVersion+l.verbs.ABI):
	case slices.ContainsFunc(needs, private):
		return finding.Warning, "its provider " + quote(at) + " is of private ABI " + quote(rdmacore.PrivateABIs(needs)) +
			", but " +
			quote("/"+l.verbs.Path) + " has " + l.verbs.ABI, oneBuild
	default:
		return finding.NotSeen, "the provider " + quote(at) + " names no private ABI", ""
	}
	if lacks := l.missing(lib); lacks != "" {
		return finding.Warning, "its provider " + quote(at) + " needs " + quote(lacks) + ", which the container lacks",
			installDependency
	}
	return finding.OK, "provider " + quote(at), ""
}

// Remedies.
const (
	installProviders = "install ibverbs-providers (Debian, Ubuntu) or libibverbs (RHEL, Fedora, SUSE) in the image, or use " +
		"userspace: host"
	oneBuild = "install libibverbs and its providers from one build of rdma-core, and mount nothing over a part of it"

	installDependency = "install it in the image: libnl-3-200 and libnl-route-3-200 (Debian, Ubuntu) or libnl3 (RHEL, Fedora)"
)

// absent returns the result for a provider without a file.
func (l *libraries) absent(name string, configured bool) (result finding.Severity, message, remedy string) {
	names, err := l.root.entries(l.verbs.ProviderDir, maxProviders)
	if err != nil && !isMissing(err) {
		return finding.NotSeen, "the providers in " + quote(l.verbs.ProviderDir) + " cannot be listed: " + err.Error(), ""
	}
	for _, other := range names {
		if strings.HasPrefix(other, "lib"+name+"-rdmav") {
			return finding.Warning, "its provider " + quote(other) + " is of another private ABI than " +
				quote("/"+l.verbs.Path) +
				", which has " + l.verbs.ABI, oneBuild
		}
	}
	if configured {
		return finding.Warning, quote(l.verbs.ConfigDir) + " names the provider " + name + ", but " +
			quote(l.verbs.File(name)) +
			" does not exist", installProviders
	}
	return finding.Warning, "it has no provider " + name + " in " + quote(l.verbs.ProviderDir), installProviders
}

// find finds the file of a provider in the same order as libibverbs: at the provider's own path, then by name through
// the dynamic linker.
func (l *libraries) find(name string) (lib *rdmacore.Object, at string, err error) {
	at = l.verbs.File(name)
	lib, err = l.linker.Open(strings.TrimPrefix(at, "/"))
	if isMissing(err) {
		if other, p, err := l.linker.Find(path.Base(at)); err == nil {
			return other, "/" + p, nil
		}
		for _, dir := range l.env.libraryPath() {
			if p := path.Join(dir, path.Base(at)); l.root.exists(p) {
				lib, err = l.linker.Open(strings.TrimPrefix(p, "/"))
				return lib, p, err
			}
		}
	}
	return lib, at, err
}

// configured reports whether libibverbs knows the name of a provider. It looks at the file of that name first.
func (l *libraries) configured(name string) (bool, error) {
	for _, variable := range []string{"IBV_DRIVERS", "RDMAV_DRIVERS"} {
		isEnd := func(r rune) bool { return r == ':' || r == ';' }
		for driver := range strings.FieldsFuncSeq(l.env.get(variable), isEnd) {
			if path.Base(driver) == name || path.Base(driver) == "lib"+name {
				return true, nil
			}
		}
	}
	names := func(file string) bool {
		data, err := l.root.read(path.Join(l.verbs.ConfigDir, file), rdmacore.MaxConfig)
		return err == nil && slices.ContainsFunc(rdmacore.ParseDrivers(string(data)), func(driver string) bool {
			return driver == name || path.Base(driver) == "lib"+name
		})
	}
	if names(name + ".driver") {
		return true, nil
	}
	files, err := l.root.entries(l.verbs.ConfigDir, maxProviders)
	if isMissing(err) {
		return false, nil
	}
	return slices.ContainsFunc(files, names), err
}

// missing returns a library that a library needs and the container lacks, "" for none. It is silent about a library
// that names directories for what it needs.
func (l *libraries) missing(lib *rdmacore.Object) string {
	if lib.RunPath {
		return ""
	}
	musl := rdmacore.MuslLibrary(lib.Needed)
	for i, name := range lib.Needed {
		if i == maxNeeded {
			break
		}
		if rdmacore.PartOfGLIBC(name) || name == musl || strings.Contains(name, "/") {
			continue
		}
		places := l.linker.Candidates(name)
		if musl != "" {
			places = append(places, "usr/local/lib/"+name)
		}
		for _, dir := range l.env.libraryPath() {
			places = append(places, path.Join(dir, name))
		}
		if !slices.ContainsFunc(places, l.root.exists) {
			return name
		}
	}
	return ""
}

// maxProviders bounds the files of providers: rdma-core has 20.
const maxProviders = 256

// maxNeeded bounds the needed libraries that are looked for: a provider needs three.
const maxNeeded = 32
