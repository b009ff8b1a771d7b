package cdi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var (
	rdmaCM  = rdma.Node{Kind: rdma.NodeRDMACM, Name: "rdma_cm", Major: 10, Minor: 260}
	uverbs0 = rdma.Node{Kind: rdma.NodeUverbs, Name: "uverbs0", Major: 231, Minor: 192}
	uverbs1 = rdma.Node{Kind: rdma.NodeUverbs, Name: "uverbs1", Major: 231, Minor: 193}

	hook = &cdi.Hook{Path: "/usr/bin/rdma-hook", Options: args.Options{Memlock: args.Unlimited}}
)

func limit(ibdev string, handles, objects args.Count) args.Limit {
	return args.Limit{IBDev: ibdev, Want: args.Wanted{Handles: handles, Objects: objects}}
}

// with is a hook that also sets limits.
func with(h *cdi.Hook, limits ...args.Limit) *cdi.Hook {
	limited := *h
	limited.Options.Limits = limits
	return &limited
}

func nodes(n ...rdma.Node) []rdma.Node { return n }

// TestNewSpecGolden: the whole file, in both formats, for each way in which edits
// can be shared.
func TestNewSpecGolden(t *testing.T) {
	golden.Cases(t, "newspec", func(t *testing.T, devices []cdi.Device) string {
		spec, err := cdi.NewSpec("rdma.dev/hca", devices)
		must.NoError(t, err)
		out := ""
		for _, format := range []cdi.Format{cdi.JSON, cdi.YAML} {
			data, err := cdi.Encode(spec, format)
			must.NoError(t, err)
			file := filepath.Join(t.TempDir(), "spec."+string(format))
			must.NoError(t, os.WriteFile(file, data, 0o644))
			readSpec(t, file)
			out += string(data)
		}
		return out
	})
}

// readSpec reads a file as a runtime does, and checks that old ones can.
func readSpec(t *testing.T, file string) *cdiapi.Spec {
	t.Helper()
	spec, err := cdiapi.ReadSpec(file, 0)
	must.NoError(t, err, must.Sprintf("%s does not load in the CDI library", file))
	test.True(t, spec.Version == "0.3.0" || spec.Version == "0.5.0",
		test.Sprintf("%s needs CDI %s; podman 4.3 knows 0.5.0", file, spec.Version))
	return spec
}

// TestNewSpecVersion: 0.3.0, unless a name starts with a digit.
func TestNewSpecVersion(t *testing.T) {
	for name, want := range map[string]string{"mlx5_0": "0.3.0", "pci-0000-3b-00-0": "0.3.0", "0000:3b:00.0": "0.5.0"} {
		spec, err := cdi.NewSpec("rdma.dev/hca",
			[]cdi.Device{{Name: name, Nodes: nodes(uverbs0, rdmaCM), Hook: hook, Env: []string{"A=b"}}})
		test.True(t, err == nil && spec.Version == want,
			test.Sprintf("device %s: version %s, error %v; want %s", name, spec.Version, err, want))
	}
}

// withMount is a device with a mount.
func withMount(host, container string) []cdi.Device {
	return []cdi.Device{{Name: "a", Nodes: nodes(uverbs0),
		Mounts: []cdi.Mount{{HostPath: host, ContainerPath: container}}}}
}

func TestNewSpecRefuses(t *testing.T) {
	good := cdi.Device{Name: "a", Nodes: nodes(uverbs0)}
	for _, c := range []struct {
		name, kind string
		devices    []cdi.Device
		want       string
	}{
		{"no devices", "rdma.dev/hca", nil, "no devices"},
		{"one name twice", "rdma.dev/hca", []cdi.Device{good, good}, `device "a": the name is used twice`},
		{"no edits", "rdma.dev/hca", []cdi.Device{{Name: "a"}}, `device "a": no container edits`},
		{"no name", "rdma.dev/hca", []cdi.Device{{Nodes: nodes(uverbs0)}}, `device ""`},
		{"bad name", "rdma.dev/hca", []cdi.Device{{Name: "a/b", Nodes: nodes(uverbs0)}}, `device "a/b"`},
		{"bad environment", "rdma.dev/hca", []cdi.Device{{Name: "a", Env: []string{"NOVALUE"}}}, "NOVALUE"},
		{"mount of DEL", "rdma.dev/hca", withMount("/opt/a\x7fb", "/opt/a"), `"/opt/a\x7fb" is not printable text`},
		{"mount at a control character", "rdma.dev/hca", withMount("/opt/a", "/opt/\x85"),
			`"/opt/\x85" is not printable text`},
		{"mount of no UTF-8", "rdma.dev/hca", withMount("/opt/\xff", "/opt/a"), `"/opt/\xff" is not printable text`},
		{"node of a control character", "rdma.dev/hca",
			[]cdi.Device{{Name: "a", Nodes: nodes(rdma.Node{Kind: rdma.NodeUverbs, Name: "uverbs\x1b"})}},
			`uverbs\x1b" is not printable text`},
		{"hook at a control character", "rdma.dev/hca",
			[]cdi.Device{{Name: "a", Nodes: nodes(uverbs0), Hook: &cdi.Hook{Path: "/usr/bin/\x7f"}}},
			`"/usr/bin/\x7f" is not printable text`},
		{"control character", "rdma.dev/hca", []cdi.Device{{Name: "a", Env: []string{"A=\x7f"}}},
			`"A=\x7f" is not printable text`},
		{"bytes that are no text", "rdma.dev/hca",
			[]cdi.Device{{Name: "a", Nodes: nodes(uverbs0), Hook: &cdi.Hook{Path: "/\xff"}}}, `"/\xff" is not printable text`},
		{"limits of nothing", "rdma.dev/hca", limited(limit("mlx5_0", 0, 0)), "neither handles nor objects"},
		{"negative limits", "rdma.dev/hca", limited(limit("mlx5_0", 1, -1)),
			"must not be negative"},
		{"limits of no device", "rdma.dev/hca", limited(limit("", 1, 0)), `limit the RDMA device ""`},
		{"a blank in a name", "rdma.dev/hca", limited(limit("mlx5 0", 1, 0)),
			`limit the RDMA device "mlx5 0"`},
		{"a report in no directory", "rdma.dev/hca", []cdi.Device{{Name: "a", Nodes: nodes(uverbs0),
			Hook: &cdi.Hook{Path: "/hook", Options: args.Options{Report: "reports"}}}}, "the hook refuses its arguments"},
		{"no vendor", "hca", []cdi.Device{good}, "vendor"},
		{"bad vendor", "-x/hca", []cdi.Device{good}, "vendor"},
		{"bad class", "rdma.dev/h+a", []cdi.Device{good}, "class"},
	} {
		_, err := cdi.NewSpec(c.kind, c.devices)
		test.ErrorContains(t, err, c.want, test.Sprint(c.name))
	}
}

func limited(l args.Limit) []cdi.Device {
	return []cdi.Device{{Name: "a", Nodes: nodes(uverbs0), Hook: with(hook, l)}}
}

// TestNewSpecLeavesItsInput: devices are not reordered under the caller.
func TestNewSpecLeavesItsInput(t *testing.T) {
	devices := []cdi.Device{{Name: "b", Nodes: nodes(uverbs1, uverbs0)}, {Name: "a", Nodes: nodes(uverbs0)}}
	_, err := cdi.NewSpec("rdma.dev/hca", devices)
	must.NoError(t, err)
	test.True(t, devices[0].Name == "b" && devices[0].Nodes[0].Name == "uverbs1",
		test.Sprintf("the caller's devices are %+v now", devices))
}

// TestValidateAgreesWithLibrary: what Validate says of a spec in memory is what
// the library says of the file.
func TestValidateAgreesWithLibrary(t *testing.T) {
	golden.Cases(t, "validate", func(t *testing.T, spec specs.Spec) string {
		data, err := cdi.Encode(&spec, cdi.JSON)
		must.NoError(t, err)
		file := filepath.Join(t.TempDir(), "spec.json")
		must.NoError(t, os.WriteFile(file, data, 0o644))
		_, theirs := cdiapi.ReadSpec(file, 0)
		ours := cdi.Validate(&spec)
		test.Eq(t, theirs == nil, ours == nil, test.Sprintf("Validate says %v, the library %v", ours, theirs))
		return fmt.Sprint(ours)
	})
}

func TestParseFormat(t *testing.T) {
	for in, ok := range map[string]bool{"json": true, "yaml": true, "yml": false, "": false, "JSON": false} {
		_, err := cdi.ParseFormat(in)
		test.Eq(t, ok, err == nil, test.Sprintf("%q: error %v", in, err))
	}
}

func TestQualified(t *testing.T) {
	test.Eq(t, "rdma.dev/hca=mlx5_0", cdi.Qualified(cdi.KindHCA, "mlx5_0"))
}
