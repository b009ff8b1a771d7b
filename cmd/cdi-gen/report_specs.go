package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/internal/support"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// reportSpec is a file in a spec directory, for a report.
type reportSpec struct {
	path    string
	outline []byte // what the report may say of it; nil if it is invalid
}

// reportSpecs reads the spec directories for a report, and makes the scrubber hide what no outline says. It hides the
// values of each file that doctor quotes, also of those that are no specs.
func reportSpecs(host fs.ReadLinkFS, dirs []string, scrubber *support.Scrubber) ([]reportSpec, error) {
	var list []reportSpec
	var values []string
	for _, dir := range dirs {
		entries, _ := hostfs.ReadDir(host, dir, hostfs.MaxEntries) // doctor reports an error
		for _, e := range entries {
			r := reportSpec{path: path.Join(dir, e.Name())}
			data, err := hostfs.ReadFile(host, r.path, int64(yamlread.Spec.Size))
			if err != nil {
				continue
			}
			if spec, err := cdi.ParseSpec(data); err == nil {
				if r.outline, err = cdi.Encode(outline(spec), cdi.YAML); err != nil {
					return nil, err
				}
			}
			values = append(values, scalars(data)...)
			if dir == cdi.StaticDir || dir == cdi.DynamicDir { // the path of another one may name a user
				scrubber.Keep(string(r.outline))
				list = append(list, r)
			}
		}
	}
	for _, value := range values {
		scrubber.Hide(value)
	}
	return list, nil
}

// scalars returns the values of a spec, none if it is no YAML. A kind is no secret, and neither is a path that each
// host has.
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
			_, after, _ := strings.Cut(n.Value, "=")
			values = append(values, n.Value, after)
		}
	}
	return values
}

var (
	// kindText is a kind of CDI devices: vendor.com/class.
	kindText = regexp.MustCompile(`^[[:alnum:]-]+(\.[[:alnum:]-]+)+/[[:alnum:]_-]+$`)
	// everyHost are directories that each host has: to find one in a report says nothing of a spec.
	everyHost = regexp.MustCompile(`^/(dev|sys|proc|etc|etc/cdi|run|run/cdi|var|var/run|var/run/cdi|` +
		`usr|usr/lib|usr/lib64|usr/bin|usr/sbin|usr/local|usr/local/bin|lib|lib64|bin|sbin|opt|srv|tmp|home|root)/?$`)
	// rdmaNode are the nodes that the kernel makes for HCAs.
	rdmaNode = regexp.MustCompile(`^/dev/(infiniband(/(uverbs|umad|issm|ucm)[0-9]+|/rdma_cm)?|hfi1_[0-9]+)$`)
	// ourHook is the path of a hook that cdi-gen or the driver installed.
	ourHook = regexp.MustCompile(`/rdma-hook[-.0-9a-z]*$`)
	// systemDirs have the libraries that cdi-gen mounts (--userspace).
	systemDirs = regexp.MustCompile(`^/(usr/|lib/|lib64/|etc/libibverbs\.d)`)
)

// outline returns what a report says of a spec: its kind and RDMA nodes; of ours, also what cdi-gen and the driver
// write, without the values of variables.
func outline(spec *specs.Spec) *specs.Spec {
	ours := spec.Kind == cdi.KindHCA || spec.Kind == cdi.KindClaim
	out := &specs.Spec{Version: spec.Version, Kind: spec.Kind, ContainerEdits: outlineEdits(&spec.ContainerEdits, ours)}
	for i, d := range spec.Devices {
		name := fmt.Sprintf("device-%d", i+1)
		if ours {
			name = d.Name
		}
		out.Devices = append(out.Devices, specs.Device{Name: name, ContainerEdits: outlineEdits(&d.ContainerEdits, ours)})
	}
	return out
}

func outlineEdits(e *specs.ContainerEdits, ours bool) specs.ContainerEdits {
	var out specs.ContainerEdits
	for _, n := range e.DeviceNodes {
		if rdmaNode.MatchString(n.Path) {
			out.DeviceNodes = append(out.DeviceNodes, &specs.DeviceNode{Path: n.Path})
		}
	}
	if !ours {
		out.Env = []string{"OTHERS=" + support.Hidden} // all else; a device without edits would make a spec invalid
		return out
	}
	for _, variable := range e.Env {
		name, _, _ := strings.Cut(variable, "=")
		out.Env = append(out.Env, name+"="+support.Hidden)
	}
	for _, h := range e.Hooks {
		if ourHook.MatchString(h.Path) {
			out.Hooks = append(out.Hooks, &specs.Hook{HookName: h.HookName, Path: h.Path, Args: h.Args, Timeout: h.Timeout})
		}
	}
	for _, m := range e.Mounts {
		if systemDirs.MatchString(m.HostPath) && systemDirs.MatchString(m.ContainerPath) {
			out.Mounts = append(out.Mounts, &specs.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath})
		}
	}
	return out
}
