package doctor

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing/fstest"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// verbs are the commands of testdata/cases: the methods of fake that change a host.
var verbs = map[string]any{
	"alias": (*fake).alias, "arm64-program": (*fake).arm64Program, "auxiliary": (*fake).auxiliary,
	"chmod": (*fake).chmod, "dir": (*fake).dir, "dynamic-program": (*fake).dynamicProgram, "elsewhere": (*fake).elsewhere,
	"fails": (*fake).fails, "function": (*fake).function, "gzip": (*fake).gzip, "hide": (*fake).hide,
	"limits": (*fake).limits, "link": (*fake).link, "load": (*fake).load, "no-rdmamap": (*fake).noRdmamap,
	"node": (*fake).node, "owner": (*fake).owner, "prints": (*fake).prints, "process": (*fake).process,
	"program": (*fake).program, "rdmamap": (*fake).rdmamap, "rdmamap-fails": (*fake).rdmamapFails,
	"remove": (*fake).remove, "replace": (*fake).replace, "spec": (*fake).spec, "sys": (*fake).sys,
	"syslink": (*fake).syslink, "uninstall": (*fake).uninstall, "unsys": (*fake).unsys, "user": (*fake).user,
}

// do runs a command: a verb and its arguments. One with blanks stands in quotes, as in Go.
func (f *fake) do(command string) {
	f.t.Helper()
	verb, rest, _ := strings.Cut(strings.TrimSpace(command), " ")
	method := reflect.ValueOf(verbs[verb])
	must.True(f.t, method.IsValid(), must.Sprintf("no verb %q", verb))
	of, values := method.Type(), []reflect.Value{reflect.ValueOf(f)}
	for rest != "" {
		word, _, _ := strings.Cut(rest, " ")
		text := word
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			word = quoted
			text, err = strconv.Unquote(quoted)
			must.NoError(f.t, err)
		}
		rest = strings.TrimSpace(rest[len(word):])
		if len(values) >= of.NumIn()-1 && of.IsVariadic() || of.In(len(values)).Kind() == reflect.String {
			values = append(values, reflect.ValueOf(text))
			continue
		}
		number := reflect.New(of.In(len(values)))
		_, err := fmt.Sscan(text, number.Interface())
		must.NoError(f.t, err, must.Sprint(command))
		values = append(values, number.Elem())
	}
	method.Call(values)
}

func (f *fake) put(name string, file *fstest.MapFile) {
	f.root[strings.TrimPrefix(name, "/")] = file
}

func (f *fake) file(name, content string) {
	f.put(name, &fstest.MapFile{Data: []byte(content), Mode: 0o644})
}

func (f *fake) dir(name string, mode fs.FileMode) {
	f.put(name, &fstest.MapFile{Mode: fs.ModeDir | mode})
}

func (f *fake) link(name, target string) {
	f.put(name, &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777})
}

// remove removes files and directories that match a pattern of path.Match, and what is below.
func (f *fake) remove(pattern string) {
	for name := range f.root {
		for at := "/" + name; at != "/"; at = path.Dir(at) {
			if ok, err := path.Match(pattern, at); ok || err != nil {
				delete(f.root, name)
			}
		}
	}
}

func (f *fake) chmod(name string, mode fs.FileMode) {
	file := f.root[strings.TrimPrefix(name, "/")]
	file.Mode = file.Mode.Type() | mode
}

func (f *fake) owner(name string, uid, gid uint32) {
	f.root[strings.TrimPrefix(name, "/")].Sys = &syscall.Stat_t{Uid: uid, Gid: gid}
}

// gzip compresses a file.
func (f *fake) gzip(name string) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(f.root[strings.TrimPrefix(name, "/")].Data)
	must.NoError(f.t, errors.Join(err, w.Close()))
	f.file(name, b.String())
}

// hide keeps a file from all but root.
func (f *fake) hide(name string) { f.hidden = append(f.hidden, name) }

func (f *fake) node(name string, major, minor uint32, mode fs.FileMode) {
	f.put(name, &fstest.MapFile{Mode: fs.ModeDevice | fs.ModeCharDevice | mode,
		Sys: &syscall.Stat_t{Rdev: unix.Mkdev(major, minor)}})
}

// sys puts an attribute of one line into /sys.
func (f *fake) sys(name, value string) {
	must.NoError(f.t, f.machine.Tree().Replace(tree.Entry{Path: f.through(name), Kind: tree.File, Data: value + "\n"}))
}

// syslink puts a link into /sys.
func (f *fake) syslink(name, target string) {
	must.NoError(f.t, f.machine.Tree().Replace(tree.Entry{Path: f.through(name), Kind: tree.Link, Target: target}))
}

// unsys removes an entry of /sys, and what is below.
func (f *fake) unsys(name string) { f.machine.Tree().Remove(f.through(name)) }

// through follows the links in the way to an entry of /sys, which need not exist.
func (f *fake) through(name string) string {
	name = "sys/" + name
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if e, err := f.machine.Tree().Resolve(dir); err == nil {
			return e.Path + strings.TrimPrefix(name, dir)
		}
	}
	return name
}

// function puts a PCI function; without a driver if that is "".
func (f *fake) function(address, vendor, device, class, driver string) {
	dir := "bus/pci/devices/" + address
	f.sys(dir+"/vendor", "0x"+vendor)
	f.sys(dir+"/device", "0x"+device)
	f.sys(dir+"/class", "0x"+class)
	if driver != "" {
		f.syslink(dir+"/driver", "../../../../bus/pci/drivers/"+driver)
	}
}

// auxiliary puts an auxiliary device of a PCI function, and binds it to a driver unless that is "".
func (f *fake) auxiliary(address, name, driver string) {
	dir := "devices/pci0000:60/" + address + "/" + name
	f.sys(dir+"/uevent", "")
	f.syslink("bus/auxiliary/devices/"+name, "../../../"+dir)
	if driver != "" {
		f.syslink(dir+"/driver", "../../../../bus/auxiliary/drivers/"+driver)
	}
}

// load puts a loaded module.
func (f *fake) load(modules ...string) {
	for _, m := range modules {
		f.sys("module/"+m+"/refcnt", "0")
	}
}

const (
	release      = "6.12.117+deb12-amd64"
	modulesAlias = "/lib/modules/" + release + "/modules.alias"
)

// kernel puts the tables of modules of a real kernel; testdata/modules/README.md says where they come from.
func (f *fake) kernel() {
	f.file(osrelease, release+"\n")
	for _, name := range []string{"modules.alias", "modules.dep"} {
		data, err := os.ReadFile("testdata/modules/" + name)
		must.NoError(f.t, err)
		f.file("/lib/modules/"+release+"/"+name, string(data))
	}
}

// alias adds a line to the kernel's table of aliases, and the RDMA driver to that of dependencies.
func (f *fake) alias(pattern, module string) {
	add := func(name, line string) {
		f.file(name, string(f.root[strings.TrimPrefix(name, "/")].Data)+line)
	}
	add(modulesAlias, "alias "+pattern+" "+module+"\n")
	add("/lib/modules/"+release+"/modules.dep", "kernel/drivers/infiniband/hw/"+module+"/"+module+".ko:\n")
}

func (f *fake) limits(pid, soft, hard string) {
	f.file("/proc/"+pid+"/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"+
		"Max cpu time              unlimited            unlimited            seconds   \n"+
		"Max locked memory         "+soft+"              "+hard+"              bytes     \n")
}

func (f *fake) process(pid int, comm, soft, hard string, uid int) {
	dir := "/proc/" + strconv.Itoa(pid)
	f.file(dir+"/comm", comm+"\n")
	f.status(strconv.Itoa(pid), comm, uid)
	f.limits(strconv.Itoa(pid), soft, hard)
}

// status says who a process is. Root has all capabilities.
func (f *fake) status(pid, comm string, uid int) {
	capabilities := "0000000000000000"
	if uid == 0 {
		capabilities = allCapabilities
	}
	f.file("/proc/"+pid+"/status", fmt.Sprintf("Name:\t%s\nUid:\t%[2]d\t%[2]d\t%[2]d\t%[2]d\nNSpid:\t%s\nCapEff:\t%s\n"+
		"CapBnd:\t%s\n", comm, uid, pid, capabilities, allCapabilities))
	f.file("/proc/"+pid+"/uid_map", "         0          0 4294967295\n")
}

const allCapabilities = "000001ffffffffff"

// replace changes a text in a file.
func (f *fake) replace(name, from, to string) {
	data := string(f.root[strings.TrimPrefix(name, "/")].Data)
	must.StrContains(f.t, data, from, must.Sprint(name))
	f.file(name, strings.Replace(data, from, to, 1))
}

// program puts an executable of the host, arm64Program one of another processor, and dynamicProgram one with an
// interpreter.
func (f *fake) program(name string)        { f.elf(name, elf.EM_X86_64, elf.PT_LOAD) }
func (f *fake) arm64Program(name string)   { f.elf(name, elf.EM_AARCH64, elf.PT_LOAD) }
func (f *fake) dynamicProgram(name string) { f.elf(name, elf.EM_X86_64, elf.PT_INTERP) }

// elf puts an executable with one segment of that type.
func (f *fake) elf(name string, machine elf.Machine, segment elf.ProgType) {
	var b bytes.Buffer
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Phoff: 64,
		Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(header.Ident[:], elf.ELFMAG+string([]byte{byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}))
	for _, part := range []any{header, elf.Prog64{Type: uint32(segment)}} {
		must.NoError(f.t, binary.Write(&b, binary.LittleEndian, part))
	}
	f.put(name, &fstest.MapFile{Data: b.Bytes(), Mode: 0o755})
}

// prints says what a program prints, without its last newline. uninstall removes the program, and fails lets it fail.
func (f *fake) prints(program, output string)         { f.output[program] = output + "\n" }
func (f *fake) uninstall(program string)              { delete(f.output, program) }
func (f *fake) fails(program, because string)         { f.failing[program] = errors.New(because) }
func (f *fake) noRdmamap(because string)              { f.host.NoSecondOpinion = errors.New(because) }
func (f *fake) rdmamapFails(because string)           { f.opinion.err = errors.New(because) }
func (f *fake) rdmamap(ibdev string, nodes ...string) { f.opinion.nodes[ibdev] = nodes }

// elsewhere makes the host one below --host-root.
func (f *fake) elsewhere() { f.host.Local = false }

// user says who runs doctor.
func (f *fake) user(uid int, home string) {
	f.host.UID, f.host.User = uid, runtimeconf.User{UID: uid, Home: home}
}

// newSpec makes a spec with a device for each node, dev0 and so on, and with the hook
// and rdma_cm for all.
func (f *fake) newSpec(kind string, nodes ...string) *specs.Spec {
	spec := &specs.Spec{Version: "0.3.0", Kind: kind}
	spec.ContainerEdits.Hooks = []*specs.Hook{{HookName: "createRuntime", Path: hookPath,
		Args: []string{"rdma-hook", "--memlock", "unlimited"}}}
	for _, n := range f.machine.Nodes() {
		if n.Name == "rdma_cm" {
			spec.ContainerEdits.DeviceNodes = []*specs.DeviceNode{{Path: n.Path(), Permissions: "rw"}}
		}
	}
	for i, n := range nodes {
		edits := specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: n, Permissions: "rw"}}}
		for _, h := range f.before.HCAs {
			if h.Uverbs != nil && h.Uverbs.Path() == n {
				edits.Env = []string{cdi.DeviceVariable(h.Name) + "=" + h.IBDev}
			}
		}
		spec.Devices = append(spec.Devices, specs.Device{Name: "dev" + strconv.Itoa(i), ContainerEdits: edits})
	}
	return spec
}

// spec writes such a spec for the nodes that match patterns; one that none matches is a node itself.
func (f *fake) spec(name, kind string, patterns ...string) {
	var nodes []string
	for _, pattern := range patterns {
		before := len(nodes)
		for _, n := range f.machine.Nodes() {
			if ok, _ := path.Match(pattern, n.Path()); ok {
				nodes = append(nodes, n.Path())
			}
		}
		if len(nodes) == before {
			nodes = append(nodes, pattern)
		}
	}
	data, err := cdi.Encode(f.newSpec(kind, nodes...), cdi.Format(path.Ext(name)[1:]))
	must.NoError(f.t, err)
	f.file(name, string(data))
}
