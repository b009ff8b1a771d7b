// Package hostconfig reads and validates the host configuration: settings of a node's administrator for every RDMA
// container of the host, in one YAML file:
//
//	apiVersion: rdma.dev/v1alpha1
//	kind: HostConfig
//	memlock: 4Gi                    # unlimited, or a size
//	nodes: [verbs, cm]              # and psm (Omni-Path); mad, sm: devices of their own
//	names: [ibdev, pci]             # and guid, netdev
//	exclude: [mlx5_bond_*]          # devices that stay with the host
//	env:
//	  NCCL_DEBUG: WARN
//	mounts:                         # read-only
//	- hostPath: /opt/site/rdma
//	- hostPath: /etc/site.conf
//	  containerPath: /etc/app/site.conf
//	ncclTopology: /opt/microsoft/ndv5-topo.xml
//	userspace: image                # or host
//	onDenied: clamp                 # or fail, ignore: if the hook cannot set a limit
//	onUnusable: warn                # or fail, ignore: if a container cannot use its HCA
//	limits:                         # of a container, on each HCA that it is given
//	  handles: 64
//	  objects: 16384
//	acknowledge: [guid-zero]        # findings of cdi-gen doctor
//
// Parse decodes it strictly: an unknown field or an invalid value is an error that names the line and the field.
package hostconfig

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The version and kind of the file.
const (
	APIVersion = rdma.Domain + "/v1alpha1"
	Kind       = "HostConfig"
)

// Values of Config.Userspace.
const (
	UserspaceImage = "image" // containers use the libraries of their image
	UserspaceHost  = "host"  // containers get the host's libraries
)

// Config is the content of the file. For a field that is not set, the program's flags and defaults apply.
type Config struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Container  `yaml:",inline"`
	// Nodes are the classes of device nodes that containers get.
	Nodes []string `yaml:"nodes,omitempty"`
	// Names are the strategies for naming devices.
	Names []string `yaml:"names,omitempty"`
	// Exclude has patterns for devices that containers do not get.
	Exclude []string `yaml:"exclude,omitempty"`
	// Userspace selects the libraries for containers: image or host.
	Userspace string `yaml:"userspace,omitempty"`
	// OnDenied is what the hook does if it cannot set a limit: clamp, fail or ignore.
	OnDenied string `yaml:"onDenied,omitempty"`
	// OnUnusable is what the hook does if a container cannot use its HCA: warn, fail or ignore.
	OnUnusable string `yaml:"onUnusable,omitempty"`
	// Limits bound the usage of each HCA by one container.
	Limits *Limits `yaml:"limits,omitempty"`
	// Acknowledge has findings of doctor that are known: ID, or ID=SUBJECT.
	Acknowledge []string `yaml:"acknowledge,omitempty"`
}

// Limits are counts of the kernel's rdma controller. 0 means no limit.
type Limits struct {
	Handles int64 `yaml:"handles,omitempty"`
	Objects int64 `yaml:"objects,omitempty"`
}

// String returns the limits in the form of a command line, or "" for none.
func (l *Limits) String() string {
	var parts []string
	if l != nil && l.Handles > 0 {
		parts = append(parts, fmt.Sprintf("handles=%d", l.Handles))
	}
	if l != nil && l.Objects > 0 {
		parts = append(parts, fmt.Sprintf("objects=%d", l.Objects))
	}
	return strings.Join(parts, ",")
}

// Container is what every RDMA container gets besides its devices. The driver's
// policy has the same fields (package policy).
type Container struct {
	// Memlock is the soft locked memory limit of containers for which nobody else sets one: unlimited, or a size such
	// as 4Gi or 4g (4G is 4000000000 bytes, as in Kubernetes). It is no bound: a process may raise its own limit to
	// the hard one. Defaults to what the flag --memlock says.
	Memlock string `yaml:"memlock,omitempty"`
	// Env are environment variables of every container that gets an HCA, by name.
	Env map[string]string `yaml:"env,omitempty"`
	// Mounts are files and directories of the host that every container has that gets an HCA,
	// read-only.
	Mounts []Mount `yaml:"mounts,omitempty"`
	// NCCLTopology is a topology file for NCCL: it is mounted, and NCCL_TOPO_FILE
	// names it.
	NCCLTopology string `yaml:"ncclTopology,omitempty" jsonschema:"pattern=^/"`
}

// Mount is a read-only bind mount; without a container path it is at the same path.
type Mount struct {
	// HostPath is where it is on the host.
	HostPath string `yaml:"hostPath" jsonschema:"required,pattern=^/"`
	// ContainerPath is where the container has it. Defaults to hostPath.
	ContainerPath string `yaml:"containerPath,omitempty" jsonschema:"pattern=^/"`
}

// Parse decodes and validates a file. Its error names the line and field of every fault.
func Parse(data []byte) (*Config, error) {
	var c Config
	if err := yamlread.Config.Decode(data, &c); err != nil {
		return nil, yamlread.PositionsOf(data).Explain(err)
	}
	return &c, locate(c.validate(), data)
}

func (c *Config) validate() FieldErrors {
	errs := c.Container.Validate()
	if c.APIVersion != APIVersion {
		errs.add("apiVersion", fmt.Errorf("want %s, not %q", APIVersion, c.APIVersion))
	}
	if c.Kind != Kind {
		errs.add("kind", fmt.Errorf("want %s, not %q", Kind, c.Kind))
	}
	for field, list := range map[string][]string{"nodes": c.Nodes, "names": c.Names} {
		if list != nil && len(list) == 0 {
			errs.add(field, errors.New("want at least one"))
		}
	}
	for i, n := range c.Nodes {
		_, err := rdma.ParseNodeClass(n)
		errs.add(fmt.Sprintf("nodes[%d]", i), err)
	}
	for i, n := range c.Names {
		_, err := cdi.ParseNameStrategy(n)
		errs.add(fmt.Sprintf("names[%d]", i), err)
	}
	for i, pattern := range c.Exclude {
		if pattern == "" {
			errs.add(fmt.Sprintf("exclude[%d]", i), errors.New("want a name or a pattern of names, and it is empty"))
		}
		if _, err := path.Match(pattern, ""); err != nil {
			errs.add(fmt.Sprintf("exclude[%d]", i), fmt.Errorf("%q: %w", pattern, err))
		}
	}
	if l := c.Limits; l != nil && (min(l.Handles, l.Objects) < 0 || max(l.Handles, l.Objects) == 0) {
		errs.add("limits", errors.New("want handles or objects above 0, or both"))
	}
	if c.OnDenied != "" {
		_, err := args.ParseOnDenied(c.OnDenied)
		errs.add("onDenied", err)
	}
	if c.OnUnusable != "" {
		_, err := args.ParseOnUnusable(c.OnUnusable)
		errs.add("onUnusable", err)
	}
	if !slices.Contains([]string{"", UserspaceImage, UserspaceHost}, c.Userspace) {
		errs.add("userspace", fmt.Errorf("want %s or %s, not %q", UserspaceImage, UserspaceHost, c.Userspace))
	}
	return errs
}

// Validate returns all errors.
func (c *Container) Validate() (errs FieldErrors) {
	if c.Memlock != "" {
		_, err := args.ParseSize(c.Memlock)
		errs.add("memlock", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		errs.add(yamlread.Path("env", name), checkEnv(name, c.Env[name]))
	}
	at := map[string]string{} // host path by container path
	for i, m := range c.Mounts {
		field := fmt.Sprintf("mounts[%d]", i)
		errs.add(field, m.validate())
		host, container := m.paths()
		if other, taken := at[container]; taken && other != host {
			errs.add(field, fmt.Errorf("%s is mounted at %s already", other, container))
		}
		at[container] = host
	}
	if c.NCCLTopology != "" && !path.IsAbs(c.NCCLTopology) {
		errs.add("ncclTopology", fmt.Errorf("want an absolute path, not %q", c.NCCLTopology))
	}
	if !cdi.Printable(c.NCCLTopology) {
		errs.add("ncclTopology", fmt.Errorf("want printable text, not %q", c.NCCLTopology))
	}
	if file := path.Clean(c.NCCLTopology); at[file] != "" && at[file] != file {
		errs.add("ncclTopology", fmt.Errorf("%s is mounted at %s already", at[file], file))
	}
	return errs
}

// paths returns the cleaned paths of the mount, so that each path has only one form.
func (m Mount) paths() (host, container string) {
	return path.Clean(m.HostPath), path.Clean(cmp.Or(m.ContainerPath, m.HostPath))
}

func (m Mount) validate() error {
	if !path.IsAbs(m.HostPath) || (m.ContainerPath != "" && !path.IsAbs(m.ContainerPath)) {
		return fmt.Errorf("hostPath %q, containerPath %q: want absolute paths", m.HostPath, m.ContainerPath)
	}
	if !cdi.Printable(m.HostPath) || !cdi.Printable(m.ContainerPath) {
		return fmt.Errorf("hostPath %q, containerPath %q: want printable text", m.HostPath, m.ContainerPath)
	}
	if _, container := m.paths(); container == "/" {
		return errors.New("a mount at / hides all of the image")
	}
	return nil
}

func checkEnv(name, value string) error {
	unnamed := func(r rune) bool { return r == '=' || !unicode.IsGraphic(r) }
	if name == "" || !cdi.Printable(name) || strings.ContainsFunc(name, unnamed) {
		return errors.New("no name of an environment variable")
	}
	if strings.HasPrefix(name, cdi.DeviceVariable("")) {
		return errors.New("the name is reserved: it says for which HCA a device of a spec is")
	}
	if !cdi.Printable(value) {
		return errors.New("the value is not printable text")
	}
	return nil
}

// ParseMount parses the flag form HOST or HOST:CONTAINER. Only the file can contain paths with a colon.
func ParseMount(s string) (Mount, error) {
	host, container, two := strings.Cut(s, ":")
	m := Mount{HostPath: host, ContainerPath: container}
	err := m.validate()
	if two && (container == "" || strings.Contains(container, ":")) {
		err = errors.New("mounts are always read-only and take no options, and a path with a colon can stand in a " +
			"configuration file only")
	}
	if err != nil {
		return Mount{}, fmt.Errorf("mount %q: want HOST or HOST:CONTAINER: %w", s, err)
	}
	return m, nil
}

// ParseEnv parses the form of a flag: NAME=VALUE.
func ParseEnv(s string) (name, value string, err error) {
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		return "", "", fmt.Errorf("environment variable %q: want NAME=VALUE", s)
	}
	if err := checkEnv(name, value); err != nil {
		return "", "", fmt.Errorf("environment variable %q: %w", s, err)
	}
	return name, value, nil
}

// Under returns c with over on top of it. over takes precedence for the memlock limit, the topology file, a variable of
// the same name, and a mount at the same container path.
func (c Container) Under(over Container) Container {
	out := Container{Memlock: cmp.Or(over.Memlock, c.Memlock), NCCLTopology: cmp.Or(over.NCCLTopology, c.NCCLTopology),
		Env: map[string]string{}}
	maps.Copy(out.Env, c.Env)
	maps.Copy(out.Env, over.Env)
	out.Mounts = slices.DeleteFunc(slices.Clone(c.Mounts), func(m Mount) bool {
		return slices.ContainsFunc(over.Mounts, m.samePlace)
	})
	out.Mounts = append(out.Mounts, over.Mounts...)
	return out
}

func (m Mount) samePlace(other Mount) bool {
	_, here := m.paths()
	_, there := other.paths()
	return here == there
}

// Edits are the environment variables and mounts that a configuration adds to every device.
type Edits struct {
	Env    []string
	Mounts []cdi.Mount
}

// NCCLTopologyVariable is the variable with the path of NCCL's topology file.
const NCCLTopologyVariable = "NCCL_TOPO_FILE"

// Edits returns the environment and the mounts, sorted and without duplicates.
func (c *Container) Edits() Edits {
	var e Edits
	for name, value := range c.Env {
		e.Env = append(e.Env, name+"="+value)
	}
	for _, m := range c.Mounts {
		host, container := m.paths()
		e.Mounts = append(e.Mounts, cdi.Mount{HostPath: host, ContainerPath: container})
	}
	if c.NCCLTopology != "" {
		file := path.Clean(c.NCCLTopology)
		e.Mounts = append(e.Mounts, cdi.Mount{HostPath: file, ContainerPath: file})
		e.Env = append(e.Env, NCCLTopologyVariable+"="+file)
	}
	slices.Sort(e.Env)
	slices.SortFunc(e.Mounts, func(a, b cdi.Mount) int { return strings.Compare(a.ContainerPath, b.ContainerPath) })
	e.Mounts = slices.Compact(e.Mounts)
	return e
}
