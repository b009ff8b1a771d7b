package cdi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The kinds of specs that the two programs write.
const (
	KindHCA   = rdma.Domain + "/hca"   // the host's devices, written by cdi-gen
	KindClaim = rdma.Domain + "/claim" // the devices of one ResourceClaim, written by dra-driver
)

// Device is a named device of a spec, with all its edits.
type Device struct {
	// Name starts with a letter, which every CDI version accepts.
	Name string
	// Nodes are the character devices.
	Nodes []rdma.Node
	// Env holds NAME=value settings. A runtime keeps the last value of a name over all
	// devices of a container. So names are unique to a device or have
	// the same value in all of them.
	Env []string
	// Mounts are bind mounts of files and directories of the host.
	Mounts []Mount
	// Hook is what runs before the container's process, with what it does for this device; nil for none. Devices of a
	// container share what their hooks have in common.
	Hook *Hook
}

// Mount is a bind mount. It is read-only, without device files and set-user-ID programs. It is
// not noexec, because libraries are mapped as code.
type Mount struct {
	HostPath      string `json:"hostPath"`
	ContainerPath string `json:"containerPath"`
}

// Hook is the hook program, which the runtime starts after it made the namespaces of a container, and before the
// container's process runs (OCI runtime spec, createRuntime).
type Hook struct {
	// Path is absolute, on the host.
	Path string
	// Options are the program's arguments. Limits, presences, nodes and interfaces are those of one device.
	Options args.Options
}

// Qualified returns the fully qualified CDI name of a device of a kind.
func Qualified(kind, device string) string { return kind + "=" + device }

// NewSpec makes the spec of a kind with the given devices. It moves the common edits of all devices to
// the level of the spec: the connection manager's node, the mounts and the hook. A container gets these
// once. A device with limits or presences keeps a hook of its own for them. The devices are sorted by
// name, so equal input gives equal output. The spec has the lowest possible CDI version, and has
// passed the checks of the CDI library.
func NewSpec(kind string, devices []Device) (*specs.Spec, error) {
	if len(devices) == 0 {
		return nil, fmt.Errorf("make CDI spec of kind %s: no devices; a spec without devices is invalid", kind)
	}
	sorted := slices.Clone(devices)
	slices.SortFunc(sorted, func(a, b Device) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	spec := &specs.Spec{Kind: kind}
	cm := sharedCM(sorted)
	hook, sameHook := sharedHook(sorted)
	binds := sharedMounts(sorted)
	if cm != nil {
		spec.ContainerEdits.DeviceNodes = deviceNodes([]rdma.Node{*cm}, nil)
	}
	spec.ContainerEdits.Hooks = hooks(hook)
	spec.ContainerEdits.Mounts = mounts(binds)
	for _, d := range sorted {
		edits := specs.ContainerEdits{Env: d.Env, DeviceNodes: deviceNodes(d.Nodes, cm)}
		if err := checkHook(d.Hook); err != nil {
			return nil, fmt.Errorf("make CDI spec of kind %s: device %q: %w", kind, d.Name, err)
		}
		if !sameHook || ownHook(d) {
			edits.Hooks = hooks(d.Hook)
		}
		own := slices.DeleteFunc(slices.Clone(d.Mounts), func(m Mount) bool { return slices.Contains(binds, m) })
		edits.Mounts = mounts(own)
		spec.Devices = append(spec.Devices, specs.Device{Name: d.Name, ContainerEdits: edits})
	}
	return spec, finish(spec)
}

// sharedCM returns the rdma_cm node if every device has it and also other edits. A device
// without edits would be invalid.
func sharedCM(devices []Device) *rdma.Node {
	var cm *rdma.Node
	for _, d := range devices {
		i := slices.IndexFunc(d.Nodes, func(n rdma.Node) bool { return n.Kind == rdma.NodeRDMACM })
		if i < 0 || len(d.Nodes) == 1 && len(d.Env) == 0 {
			return nil
		}
		cm = &d.Nodes[i]
	}
	return cm
}

// sharedMounts returns the mounts that every device has.
func sharedMounts(devices []Device) []Mount {
	return slices.DeleteFunc(slices.Clone(devices[0].Mounts), func(m Mount) bool {
		return slices.ContainsFunc(devices, func(d Device) bool { return !slices.Contains(d.Mounts, m) })
	})
}

// deviceNodes describes nodes, without the one at the level of the spec.
func deviceNodes(nodes []rdma.Node, except *rdma.Node) []*specs.DeviceNode {
	var out []*specs.DeviceNode
	for _, n := range nodes {
		if except != nil && n.Kind == except.Kind {
			continue
		}
		out = append(out, &specs.DeviceNode{Path: n.Path(), Permissions: "rw"})
	}
	slices.SortFunc(out, func(a, b *specs.DeviceNode) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	return slices.CompactFunc(out, func(a, b *specs.DeviceNode) bool { return a.Path == b.Path })
}

// mounts describes bind mounts. It omits the type, which needs CDI 0.4.0, because the
// option "bind" has the same effect.
func mounts(binds []Mount) []*specs.Mount {
	var out []*specs.Mount
	for _, m := range binds {
		options := []string{"ro", "nosuid", "nodev", "bind"}
		out = append(out, &specs.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, Options: options})
	}
	return out
}

// finish sets the version of a spec and checks it.
func finish(spec *specs.Spec) error {
	version, err := specs.MinimumRequiredVersion(spec)
	if err != nil {
		return fmt.Errorf("make CDI spec of kind %s: %w", spec.Kind, err)
	}
	spec.Version = version
	if err := errors.Join(Validate(spec), checkText(spec)); err != nil {
		return fmt.Errorf("make CDI spec of kind %s: %w", spec.Kind, err)
	}
	return nil
}

// checkText rejects text that a runtime would read differently. Runtimes read JSON too with
// a YAML parser, which treats some control characters as line breaks and rejects
// others.
func checkText(spec *specs.Spec) error {
	var errs []error
	for _, e := range Edits(spec) {
		errs = append(errs, printable(e))
	}
	return errors.Join(errs...)
}

// Edits returns the container edits of a spec: its own first, then those of its devices. They are not copies.
func Edits(spec *specs.Spec) []*specs.ContainerEdits {
	list := []*specs.ContainerEdits{&spec.ContainerEdits}
	for i := range spec.Devices {
		list = append(list, &spec.Devices[i].ContainerEdits)
	}
	return list
}

// printable checks all text of edits that this package makes.
func printable(e *specs.ContainerEdits) error {
	texts := slices.Clone(e.Env)
	for _, h := range e.Hooks {
		texts = slices.Concat(texts, []string{h.HookName, h.Path}, h.Args, h.Env)
	}
	for _, m := range e.Mounts {
		texts = slices.Concat(texts, []string{m.HostPath, m.ContainerPath}, m.Options)
	}
	for _, n := range e.DeviceNodes {
		texts = append(texts, n.Path, n.Permissions)
	}
	var errs []error
	for _, s := range texts {
		if !Printable(s) {
			errs = append(errs, fmt.Errorf("%q is not printable text", s))
		}
	}
	return errors.Join(errs...)
}

// Printable reports whether a spec can carry a text: valid UTF-8 without control characters other
// than line feeds and tabs.
func Printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '\n' && r != '\t' && !unicode.IsGraphic(r)
	})
}

// Validate checks a spec in memory as the CDI library checks a file. No other code may call the library's checks,
// because they panic on a list with a null in it. Validate also rejects kinds on which older libraries panic.
func Validate(spec *specs.Spec) error {
	if err := checkNulls(spec); err != nil {
		return err
	}
	vendor, class := parser.ParseQualifier(spec.Kind)
	errs := []error{
		specs.ValidateVersion(spec),
		parser.ValidateVendorName(vendor), parser.ValidateClassName(class), CheckKind(spec.Kind),
		(&cdiapi.ContainerEdits{ContainerEdits: &spec.ContainerEdits}).Validate(),
	}
	if len(spec.Devices) == 0 {
		errs = append(errs, errors.New("no devices"))
	}
	seen := map[string]bool{}
	for i := range spec.Devices {
		d := &spec.Devices[i]
		if seen[d.Name] {
			errs = append(errs, fmt.Errorf("device %q: the name is used twice", d.Name))
		}
		seen[d.Name] = true
		edits := &cdiapi.ContainerEdits{ContainerEdits: &d.ContainerEdits}
		err := errors.Join(parser.ValidateDeviceName(d.Name), edits.Validate())
		if noEdits(&d.ContainerEdits) {
			err = errors.Join(err, errors.New("no container edits"))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("device %q: %w", d.Name, err))
		}
	}
	return yamlread.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil }))
}

// noEdits reports whether a device changes nothing. A list without elements is no change.
func noEdits(e *specs.ContainerEdits) bool {
	return len(e.Env)+len(e.DeviceNodes)+len(e.NetDevices)+len(e.Hooks)+len(e.Mounts)+len(e.AdditionalGIDs) == 0 &&
		e.IntelRdt == nil
}

// Format is the file format of a spec.
type Format string

// The formats of CDI. Files end in .json or .yaml; runtimes ignore .yml.
const (
	JSON Format = "json"
	YAML Format = "yaml"
)

// ParseFormat checks the name of a format.
func ParseFormat(s string) (Format, error) {
	if f := Format(s); f == JSON || f == YAML {
		return f, nil
	}
	return "", fmt.Errorf("unknown format %q: want json or yaml", s)
}

// Encode encodes a spec in a format. Equal specs have equal bytes.
func Encode(spec *specs.Spec, format Format) ([]byte, error) {
	var buf bytes.Buffer
	var err error
	if format == YAML {
		buf.WriteString("---\n")
		enc := yaml.NewEncoder(&buf)
		enc.SetIndent(2)
		err = errors.Join(enc.Encode(spec), enc.Close())
	} else {
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		err = enc.Encode(spec)
	}
	if err != nil {
		return nil, fmt.Errorf("encode CDI spec of kind %s as %s: %w", spec.Kind, format, err)
	}
	return buf.Bytes(), nil
}
