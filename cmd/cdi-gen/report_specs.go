package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// hidden stands for a value of a spec in a report.
const hidden = "(hidden)"

// reportSpec is a file in a spec directory, for a report.
type reportSpec struct {
	path   string
	spec   *specs.Spec // what the report says of it; nil if it says nothing: no RDMA device, or invalid
	ours   bool
	values []string // what the spec says, and the report must not
	names  []string // qualified names of devices
}

// reportSpecs reads the spec directories for a report.
func reportSpecs(host fs.ReadLinkFS) []reportSpec {
	var list []reportSpec
	for _, dir := range []string{cdi.StaticDir, cdi.DynamicDir} {
		entries, _ := hostfs.ReadDir(host, dir, hostfs.MaxEntries) // doctor reports an error
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			data, err := hostfs.ReadFile(host, name, int64(yamlread.Spec.Size))
			if err != nil {
				continue
			}
			r := reportSpec{path: name}
			spec, err := cdi.ParseSpec(data)
			if err != nil {
				r.values = scalars(data)
				list = append(list, r)
				continue
			}
			r.ours = spec.Kind == cdi.KindHCA || spec.Kind == cdi.KindClaim
			outline := r.outline(spec)
			if strings.Contains(string(data), "/dev/infiniband") {
				r.spec = outline
			}
			list = append(list, r)
		}
	}
	return list
}

// scalars returns the values of an invalid spec, none if it is no YAML. A kind is no secret.
func scalars(data []byte) []string {
	root, err := yamlread.Spec.Parse(data)
	if err != nil || root == nil {
		return nil
	}
	var values []string
	for nodes := []*yaml.Node{root}; len(nodes) > 0; {
		n := nodes[0]
		nodes = append(nodes[1:], n.Content...)
		path := path.Clean(n.Value)
		if !kindText.MatchString(n.Value) && !everyHost.MatchString(path) && !rdmaNode.MatchString(path) {
			values = append(values, n.Value)
		}
	}
	return values
}

// kindText is a kind of CDI devices: vendor.com/class.
var kindText = regexp.MustCompile(`^[[:alnum:]-]+(\.[[:alnum:]-]+)+/[[:alnum:]_-]+$`)

// outline returns a new spec with the structure of a spec, its kind, its RDMA nodes and its counts. It hides all else
// of a spec that is not ours; of ours it keeps what cdi-gen and the driver write.
func (r *reportSpec) outline(spec *specs.Spec) *specs.Spec {
	out := &specs.Spec{Version: spec.Version, Kind: spec.Kind, Annotations: r.annotations(spec.Annotations)}
	out.ContainerEdits = r.edits(&spec.ContainerEdits)
	for i := range spec.Devices {
		d := &spec.Devices[i]
		name := d.Name
		if !r.ours {
			name = fmt.Sprintf("device-%d", i+1)
			r.names = append(r.names, cdi.Qualified(spec.Kind, d.Name))
			r.values = append(r.values, d.Name)
		}
		out.Devices = append(out.Devices, specs.Device{
			Name: name, Annotations: r.annotations(d.Annotations), ContainerEdits: r.edits(&d.ContainerEdits),
		})
	}
	return out
}

// hide notes a value that the report must not have, and returns what stands for it. An empty one stays.
func (r *reportSpec) hide(value string) string {
	if value == "" {
		return ""
	}
	if kindText.MatchString(value) {
		return hidden // the kind of some spec, perhaps
	}
	r.values = append(r.values, value)
	if _, after, ok := strings.Cut(value, "="); ok {
		r.values = append(r.values, after)
	}
	return hidden
}

func (r *reportSpec) hideAll(values []string) (out []string) {
	for _, value := range values {
		out = append(out, r.hide(value))
	}
	return out
}

func (r *reportSpec) annotations(of map[string]string) map[string]string {
	if of == nil {
		return nil
	}
	out := map[string]string{}
	for key, value := range of {
		r.hide(key)
		out[fmt.Sprintf("annotation-%d", len(out)+1)] = r.hide(value)
	}
	return out
}

func (r *reportSpec) edits(e *specs.ContainerEdits) specs.ContainerEdits {
	out := specs.ContainerEdits{AdditionalGIDs: e.AdditionalGIDs}
	for _, variable := range e.Env {
		out.Env = append(out.Env, r.variable(variable))
	}
	for _, n := range e.DeviceNodes {
		out.DeviceNodes = append(out.DeviceNodes, &specs.DeviceNode{
			Path: r.node(n.Path), HostPath: r.node(n.HostPath), Type: n.Type, Major: n.Major, Minor: n.Minor,
			FileMode: n.FileMode, Permissions: n.Permissions, UID: n.UID, GID: n.GID,
		})
	}
	for _, d := range e.NetDevices {
		out.NetDevices = append(out.NetDevices, &specs.LinuxNetDevice{
			HostInterfaceName: r.hide(d.HostInterfaceName), Name: r.hide(d.Name)})
	}
	for _, h := range e.Hooks {
		out.Hooks = append(out.Hooks, r.hook(h))
	}
	for _, m := range e.Mounts {
		out.Mounts = append(out.Mounts, r.mount(m))
	}
	if rdt := e.IntelRdt; rdt != nil {
		out.IntelRdt = &specs.IntelRdt{ClosID: r.hide(rdt.ClosID), L3CacheSchema: r.hide(rdt.L3CacheSchema),
			MemBwSchema: r.hide(rdt.MemBwSchema), Schemata: r.hideAll(rdt.Schemata), EnableMonitoring: rdt.EnableMonitoring}
	}
	return out
}

// variable keeps only the name of a variable, and only in a spec of ours.
func (r *reportSpec) variable(text string) string {
	name, value, _ := strings.Cut(text, "=")
	if !r.ours {
		r.hide(text)
		name = "VARIABLE"
	}
	r.hide(value)
	return name + "=" + hidden
}

// rdmaNode are the nodes that the kernel makes for HCAs.
var rdmaNode = regexp.MustCompile(`^/dev/(infiniband(/(uverbs|umad|issm|ucm)[0-9]+|/rdma_cm)?|hfi1_[0-9]+)$`)

func (r *reportSpec) node(name string) string {
	if name == "" || rdmaNode.MatchString(name) {
		return name
	}
	return "/dev/" + r.hide(name)
}

// ourHook is the path of a hook that cdi-gen or the driver installed.
var ourHook = regexp.MustCompile(`/rdma-hook[-.0-9a-z]*$`)

// ociHooks are the names that the OCI runtime specification has.
var ociHooks = []string{"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}

func (r *reportSpec) hook(h *specs.Hook) *specs.Hook {
	out := &specs.Hook{HookName: h.HookName, Timeout: h.Timeout}
	if !slices.Contains(ociHooks, h.HookName) {
		out.HookName = r.hide(h.HookName)
	}
	if r.ours && ourHook.MatchString(h.Path) {
		out.Path, out.Args = h.Path, h.Args
	} else {
		out.Path, out.Args = r.hidePath(h.Path), r.hideAll(h.Args)
	}
	for _, variable := range h.Env {
		out.Env = append(out.Env, r.variable(variable))
	}
	return out
}

// systemDirs have the libraries that cdi-gen mounts (--userspace).
var systemDirs = regexp.MustCompile(`^/(usr/|lib/|lib64/|etc/libibverbs\.d)`)

// mountWords are the options and types of mounts that the kernel has (mount(8)).
var mountWords = strings.Fields(`ro rw bind rbind private rprivate slave rslave shared rshared nosuid suid nodev dev
	noexec exec relatime noatime nodiratime sync async tmpfs sysfs proc none`)

func (r *reportSpec) mount(m *specs.Mount) *specs.Mount {
	word := func(value string) string {
		if value == "" || slices.Contains(mountWords, value) {
			return value
		}
		return r.hide(value)
	}
	out := &specs.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, Type: word(m.Type)}
	if !r.ours || !systemDirs.MatchString(m.HostPath) || !systemDirs.MatchString(m.ContainerPath) {
		out.HostPath, out.ContainerPath = r.hidePath(m.HostPath), r.hidePath(m.ContainerPath)
	}
	for _, option := range m.Options {
		out.Options = append(out.Options, word(option))
	}
	return out
}

// everyHost are directories that each host has: to find one in a report says nothing of a spec.
var everyHost = regexp.MustCompile(`^/(dev|sys|proc|etc|etc/cdi|run|run/cdi|var|var/run|var/run/cdi|` +
	`usr|usr/lib|usr/lib64|usr/bin|usr/sbin|usr/local|usr/local/bin|lib|lib64|bin|sbin|opt|srv|tmp|home|root)/?$`)

// hidePath hides a path. It notes only a path that says something of the site.
func (r *reportSpec) hidePath(name string) string {
	if !everyHost.MatchString(path.Clean(name)) && !rdmaNode.MatchString(path.Clean(name)) {
		r.hide(name)
	}
	return "/" + hidden
}
