// Package hostconfig is what a node's administrator wants in every RDMA container
// of the host, as one YAML file:
//
//	apiVersion: rdma.dev/v1alpha1
//	kind: HostConfig
//	memlock: 4Gi                    # unlimited, or a size
//	nodes: [verbs, cm]              # and mad, sm: devices of their own
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
//
// It is decoded strictly: an unknown field is an error that names line and field.
package hostconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// The version and kind of the file.
const (
	APIVersion = "rdma.dev/v1alpha1"
	Kind       = "HostConfig"
)

// Values of Config.Userspace.
const (
	UserspaceImage = "image" // containers use the libraries of their image
	UserspaceHost  = "host"  // containers get the host's libraries
)

// Config is the content of the file. A field that is not set leaves the matter to
// the program's flags and defaults.
type Config struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Container  `yaml:",inline"`
	// Nodes are the node classes that devices give.
	Nodes []string `yaml:"nodes,omitempty"`
	// Names are the ways in which devices are named.
	Names []string `yaml:"names,omitempty"`
	// Exclude are patterns for devices that are not given to containers.
	Exclude []string `yaml:"exclude,omitempty"`
	// Userspace says whose libraries containers use, image or host.
	Userspace string `yaml:"userspace,omitempty"`
}

// Container is what every RDMA container gets besides its devices. The driver's
// configuration file has the same fields (package policy).
type Container struct {
	// Memlock is the locked memory limit of containers.
	Memlock string `yaml:"memlock,omitempty"`
	// Env are environment variables.
	Env map[string]string `yaml:"env,omitempty"`
	// Mounts are files and directories of the host.
	Mounts []Mount `yaml:"mounts,omitempty"`
	// NCCLTopology is a topology file for NCCL: it is mounted, and NCCL_TOPO_FILE
	// names it.
	NCCLTopology string `yaml:"ncclTopology,omitempty"`
}

// Mount is a read-only bind mount; without a container path it is at the same path.
type Mount struct {
	HostPath      string `yaml:"hostPath"`
	ContainerPath string `yaml:"containerPath,omitempty"`
}

// Parse decodes and validates a file.
func Parse(data []byte) (*Config, error) {
	var c Config
	if err := Decode(data, &c); err != nil {
		return nil, err
	}
	return &c, c.validate()
}

// Decode decodes a file of one document strictly.
func Decode(data []byte, into any) error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return err
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return errors.New("it has more than one document")
	}
	return nil
}

func (c *Config) validate() error {
	var errs []error
	if c.APIVersion != APIVersion || c.Kind != Kind {
		errs = append(errs, fmt.Errorf("apiVersion %q, kind %q: want %s, %s", c.APIVersion, c.Kind, APIVersion, Kind))
	}
	errs = append(errs, c.Container.Validate())
	for i, n := range c.Nodes {
		if _, err := cdi.ParseNodeClass(n); err != nil {
			errs = append(errs, fmt.Errorf("nodes[%d]: %w", i, err))
		}
	}
	for i, n := range c.Names {
		if _, err := cdi.ParseNameStrategy(n); err != nil {
			errs = append(errs, fmt.Errorf("names[%d]: %w", i, err))
		}
	}
	if !slices.Contains([]string{"", UserspaceImage, UserspaceHost}, c.Userspace) {
		errs = append(errs, fmt.Errorf("userspace %q: want %s or %s", c.Userspace, UserspaceImage, UserspaceHost))
	}
	return errors.Join(errs...)
}

// FieldError is what is wrong with a field.
type FieldError struct {
	Field string // as mounts[0]
	Err   error
}

// Error implements the error interface.
func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the underlying error.
func (e *FieldError) Unwrap() error { return e.Err }

// Validate returns what is wrong, as joined FieldErrors.
func (c *Container) Validate() error {
	var errs []error
	add := func(field string, err error) {
		if err != nil {
			errs = append(errs, &FieldError{field, err})
		}
	}
	if c.Memlock != "" {
		_, err := hook.ParseSize(c.Memlock)
		add("memlock", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		add("env", checkEnvName(name))
	}
	for i, m := range c.Mounts {
		add(fmt.Sprintf("mounts[%d]", i), m.validate())
	}
	if c.NCCLTopology != "" && !path.IsAbs(c.NCCLTopology) {
		add("ncclTopology", fmt.Errorf("want an absolute path, not %q", c.NCCLTopology))
	}
	return errors.Join(errs...)
}

func (m Mount) validate() error {
	if !path.IsAbs(m.HostPath) || (m.ContainerPath != "" && !path.IsAbs(m.ContainerPath)) {
		return fmt.Errorf("hostPath %q, containerPath %q: want absolute paths", m.HostPath, m.ContainerPath)
	}
	return nil
}

func checkEnvName(name string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return fmt.Errorf("%q is no name of an environment variable", name)
	}
	return nil
}

// ParseMount parses the form of a flag: HOST or HOST:CONTAINER.
func ParseMount(s string) (Mount, error) {
	host, container, _ := strings.Cut(s, ":")
	m := Mount{HostPath: host, ContainerPath: container}
	if err := m.validate(); err != nil {
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
	return name, value, checkEnvName(name)
}

// Edits are what a configuration adds to every device.
type Edits struct {
	Env    []string
	Mounts []cdi.Mount
}

// ncclTopologyVariable tells NCCL where its topology file is.
const ncclTopologyVariable = "NCCL_TOPO_FILE"

// Edits returns environment and mounts, in a fixed order.
func (c *Container) Edits() Edits {
	var e Edits
	for name, value := range c.Env {
		e.Env = append(e.Env, name+"="+value)
	}
	for _, m := range c.Mounts {
		if m.ContainerPath == "" {
			m.ContainerPath = m.HostPath
		}
		e.Mounts = append(e.Mounts, cdi.Mount{HostPath: path.Clean(m.HostPath), ContainerPath: path.Clean(m.ContainerPath)})
	}
	if c.NCCLTopology != "" {
		file := path.Clean(c.NCCLTopology)
		e.Mounts = append(e.Mounts, cdi.Mount{HostPath: file, ContainerPath: file})
		e.Env = append(e.Env, ncclTopologyVariable+"="+file)
	}
	slices.Sort(e.Env)
	slices.SortFunc(e.Mounts, func(a, b cdi.Mount) int { return strings.Compare(a.ContainerPath, b.ContainerPath) })
	return e
}
