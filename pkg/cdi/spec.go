package cdi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The kinds of the two programs.
const (
	KindHCA   = "rdma.dev/hca"   // the host's devices, written by cdi-gen
	KindClaim = "rdma.dev/claim" // the devices of one ResourceClaim, written by dra-driver
)

// Device is one name that a container can ask for, and all that it gets for it.
type Device struct {
	// Name starts with a letter, which every CDI version accepts.
	Name string
	// Nodes are the character devices.
	Nodes []rdma.Node
	// Env holds NAME=value settings. A runtime keeps the last value of a name
	// over all devices of a container, so names are unique to a device or have
	// the same value in all of them.
	Env []string
	// Mounts are bind mounts of files and directories of the host.
	Mounts []Mount
	// Hook raises the locked memory limit; nil for none.
	Hook *Hook
	// Limits are what a container may use of its HCAs. They need a Hook, which
	// then sets them too.
	Limits []Limit
	// Presences are HCAs without which the container must not start. They need a Hook,
	// which then looks for them.
	Presences []Presence
	// Owners are whose the nodes are. A Hook, where there is one, keeps the container from starting
	// with a node of another HCA.
	Owners []NodeOwner
	// Interfaces are network interfaces without which the container must not start. They need
	// a Hook, which then looks for them.
	Interfaces []Interface
}

// Interface is one that has to be in the container's network namespace.
type Interface struct {
	// Name is that of the interface, and Alias what distinguishes it from any other of the name.
	Name, Alias string
}

// Presence is an HCA that has to be in the container's network namespace.
type Presence struct {
	// IBDev is the kernel's name of the HCA, and Uverbs that of its verbs node.
	IBDev, Uverbs string
}

// NodeOwner says whose a node is.
type NodeOwner struct {
	// IBDev is the kernel's name of the HCA, and Node that of its node: uverbs0.
	IBDev, Node string
	// Slot is where the HCA sits, which its names do not tell: a PCI address, with /N for
	// subfunction N of it; "" of a software device.
	Slot string
}

// Mount is a bind mount. It is read-only, and without device files and set-user-ID
// programs; it is not noexec, since libraries are mapped as code.
type Mount struct {
	HostPath      string `json:"hostPath"`
	ContainerPath string `json:"containerPath"`
}

// Limit is how much of an HCA a container may use, as the kernel's rdma controller
// counts it. Zero is no limit.
type Limit struct {
	// IBDev is the kernel's name of the HCA.
	IBDev string
	// Handles are open device contexts (hca_handle).
	Handles int64
	// Objects are the verbs objects of all of them, such as queue pairs and memory
	// regions (hca_object).
	Objects int64
}

// Hook is a program that the runtime starts when the namespaces of a container
// exist and before its process runs (OCI runtime spec, createRuntime).
type Hook struct {
	// Path is absolute, on the host.
	Path string
	// Args follow the program's name.
	Args []string
}

// Qualified returns the fully qualified CDI name of a device of a kind.
func Qualified(kind, device string) string { return kind + "=" + device }

// NewSpec makes the spec of a kind with those devices. What all of them share
// and a container should get once, the connection manager's node, the mounts and
// the hook, moves to the level of the spec. A device with limits or presences has a hook of its
// own in any case, which applies them. Devices are sorted by name, so equal input
// gives equal output. The spec carries the lowest CDI version it can, and has passed
// the CDI library's own checks.
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
	spec.ContainerEdits.Hooks = hooks(hook, Device{Owners: sharedOwners(sorted)})
	spec.ContainerEdits.Mounts = mounts(binds)
	for _, d := range sorted {
		edits := specs.ContainerEdits{Env: d.Env, DeviceNodes: deviceNodes(d.Nodes, cm)}
		if err := checkLimits(d); err != nil {
			return nil, fmt.Errorf("make CDI spec of kind %s: device %q: %w", kind, d.Name, err)
		}
		if !sameHook || ownHook(d) {
			edits.Hooks = hooks(d.Hook, d)
		}
		edits.Mounts = mounts(slices.DeleteFunc(slices.Clone(d.Mounts), func(m Mount) bool { return slices.Contains(binds, m) }))
		spec.Devices = append(spec.Devices, specs.Device{Name: d.Name, ContainerEdits: edits})
	}
	return spec, finish(spec)
}

// sharedCM returns the rdma_cm node if every device has it, and other edits of its
// own: a device without edits would be invalid.
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

// shared returns what every device has, and whether they all have the same.
func shared[T any](devices []Device, of func(Device) T) (value T, same bool) {
	for _, d := range devices[1:] {
		if !reflect.DeepEqual(of(d), of(devices[0])) {
			return value, false
		}
	}
	return of(devices[0]), true
}

// sharedMounts returns the mounts that every device has.
func sharedMounts(devices []Device) []Mount {
	return slices.DeleteFunc(slices.Clone(devices[0].Mounts), func(m Mount) bool {
		return slices.ContainsFunc(devices, func(d Device) bool { return !slices.Contains(d.Mounts, m) })
	})
}

// deviceNodes describes nodes other than the one that stands elsewhere.
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

// mounts describes bind mounts. The type is left out: it needs CDI 0.4.0, and the
// option says it as well.
func mounts(binds []Mount) []*specs.Mount {
	var out []*specs.Mount
	for _, m := range binds {
		out = append(out, &specs.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, Options: []string{"ro", "nosuid", "nodev", "bind"}})
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

// checkText refuses text that would not come out of a file as it went in: runtimes
// read JSON too with a YAML parser, which takes some control characters for line
// breaks and refuses others.
func checkText(spec *specs.Spec) error {
	errs := []error{printable(textOf(&spec.ContainerEdits)...)}
	for i := range spec.Devices {
		errs = append(errs, printable(textOf(&spec.Devices[i].ContainerEdits)...))
	}
	return errors.Join(errs...)
}

// textOf returns all text of edits that this package makes.
func textOf(e *specs.ContainerEdits) []string {
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
	return texts
}

func printable(texts ...string) error {
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

// Validate checks a spec in memory as the CDI library checks a file. It is the only caller of the library's checks, since
// those panic on a list with a null in it.
func Validate(spec *specs.Spec) error {
	if err := checkNulls(spec); err != nil {
		return err
	}
	vendor, class := parser.ParseQualifier(spec.Kind)
	errs := []error{
		specs.ValidateVersion(spec), parser.ValidateVendorName(vendor), parser.ValidateClassName(class),
		(&cdiapi.ContainerEdits{ContainerEdits: &spec.ContainerEdits}).Validate(),
	}
	if len(spec.Devices) == 0 {
		errs = append(errs, errors.New("no devices"))
	}
	seen := map[string]bool{}
	for i := range spec.Devices {
		d := &spec.Devices[i]
		if seen[d.Name] {
			errs = append(errs, fmt.Errorf("device %q: the name stands twice", d.Name))
		}
		seen[d.Name] = true
		err := errors.Join(parser.ValidateDeviceName(d.Name), (&cdiapi.ContainerEdits{ContainerEdits: &d.ContainerEdits}).Validate())
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
	return len(e.Env)+len(e.DeviceNodes)+len(e.NetDevices)+len(e.Hooks)+len(e.Mounts)+len(e.AdditionalGIDs) == 0 && e.IntelRdt == nil
}

// Format is how a spec is written.
type Format string

// The formats that CDI knows. Files end in .json or .yaml; .yml is not read.
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

// Encode writes a spec in a format. Equal specs have equal bytes.
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
