package runtimes

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"tags.cncf.io/container-device-interface/specs-go"
)

// edits are the fields of a spec that need more than the oldest version.
var edits = []struct {
	name, version, field string
	apply                func(*specs.Spec)
}{
	{"nothing", "0.3.0", "", func(*specs.Spec) {}},
	{"mount type", "0.4.0", `device "a1": mounts[0].type`, func(s *specs.Spec) {
		s.Devices[0].ContainerEdits.Mounts = []*specs.Mount{{HostPath: "/a", ContainerPath: "/a", Type: "bind"}}
	}},
	{"host path", "0.5.0", `device "a1": deviceNodes[1].hostPath`, func(s *specs.Spec) {
		s.Devices[0].ContainerEdits.DeviceNodes = []*specs.DeviceNode{{Path: "/a"}, {Path: "/dev/b", HostPath: "/dev/c"}}
	}},
	{"spec host path", "0.5.0", "containerEdits: deviceNodes[0].hostPath", func(s *specs.Spec) {
		s.ContainerEdits.DeviceNodes = []*specs.DeviceNode{{Path: "/dev/b", HostPath: "/dev/c"}}
	}},
	{"digit", "0.5.0", `device "0000:3b:00.0" (a name that starts with a digit)`,
		func(s *specs.Spec) { s.Devices[0].Name = "0000:3b:00.0" }},
	{"annotations", "0.6.0", "annotations", func(s *specs.Spec) { s.Annotations = map[string]string{"a.b/c": "d"} }},
	{"device annotations", "0.6.0", `device "a1": annotations`,
		func(s *specs.Spec) { s.Devices[0].Annotations = map[string]string{"a.b/c": "d"} }},
	{"dot", "0.6.0", `kind "rdma.dev/hca.one" (a dot in the class)`, func(s *specs.Spec) { s.Kind = "rdma.dev/hca.one" }},
	{"gids", "0.7.0", "containerEdits: additionalGids",
		func(s *specs.Spec) { s.ContainerEdits.AdditionalGIDs = []uint32{1} }},
	{"rdt", "0.7.0", `device "a1": intelRdt`,
		func(s *specs.Spec) { s.Devices[0].ContainerEdits.IntelRdt = &specs.IntelRdt{ClosID: "a"} }},
	{"schemata", "1.1.0", "containerEdits: intelRdt.schemata", func(s *specs.Spec) {
		s.ContainerEdits.IntelRdt = &specs.IntelRdt{Schemata: []string{"L3:0=f"}}
	}},
	{"monitoring", "1.1.0", "containerEdits: intelRdt.enableMonitoring", func(s *specs.Spec) {
		s.ContainerEdits.IntelRdt = &specs.IntelRdt{EnableMonitoring: true}
	}},
	{"net devices", "1.1.0", `device "a1": netDevices`, func(s *specs.Spec) {
		s.Devices[0].ContainerEdits.NetDevices = []*specs.LinuxNetDevice{{HostInterfaceName: "eth1", Name: "eth1"}}
	}},
}

func newSpec(apply func(*specs.Spec)) *specs.Spec {
	spec := &specs.Spec{Kind: "rdma.dev/hca", Devices: []specs.Device{{Name: "a1"}}}
	apply(spec)
	return spec
}

// Needs agrees with the CDI library for every field.
func TestNeeds(t *testing.T) {
	for _, c := range edits {
		spec := newSpec(c.apply)
		library, err := specs.MinimumRequiredVersion(spec)
		must.NoError(t, err)
		if got := Lowest(spec); got != c.version || got != library {
			t.Errorf("%s: needs %s, want %s; the library says %s", c.name, got, c.version, library)
		}
		var fields []string
		for _, n := range Needs(spec) {
			fields = append(fields, n.Field)
		}
		if c.field != "" && !strings.Contains(strings.Join(fields, "\n"), c.field) {
			t.Errorf("%s: fields %q, want %q", c.name, fields, c.field)
		}
	}
}

// Every field, against every version: refused with its name by the targets below
// its version, and by no other.
func TestCheck(t *testing.T) {
	for _, name := range Known() {
		target, err := Lookup(name)
		must.NoError(t, err)
		for _, c := range edits {
			spec := newSpec(c.apply)
			spec.Version = c.version
			err := target.Check(spec)
			want := target.MaxCDI == "" || tooNew(c.version, target.MaxCDI)
			test.Eq(t, want, (err != nil), test.Sprintf("%s, %s: %v", name, c.name, err))
			if err != nil && target.MaxCDI != "" && !strings.Contains(err.Error(), c.field+" needs CDI "+c.version) {
				t.Errorf("%s, %s: error names no field: %v", name, c.name, err)
			}
		}
	}
}

func TestCheckSaysEachField(t *testing.T) {
	spec := newSpec(func(s *specs.Spec) {
		for _, c := range edits[2:9] {
			c.apply(s)
		}
	})
	target, _ := Lookup("crio-1.24")
	err := target.Check(spec)
	if err == nil || strings.Count(err.Error(), "\n") < 5 {
		t.Errorf("got %v, want a line for each field", err)
	}
}

// A version may be declared higher than anything in the spec needs.
func TestCheckDeclared(t *testing.T) {
	spec := newSpec(func(*specs.Spec) {})
	target, _ := Lookup("podman-4.3")
	for declared, want := range map[string]string{
		"":       "",
		"0.5.0":  "",
		"v0.6.0": "cdiVersion v0.6.0 is declared, and podman-4.3 reads up to 0.5.0; nothing in the spec needs more than 0.3.0",
		"1.1.0":  "cdiVersion 1.1.0 is declared, and podman-4.3 reads up to 0.5.0; nothing in the spec needs more than 0.3.0",
	} {
		spec.Version = declared
		got := ""
		if err := target.Check(spec); err != nil {
			got = err.Error()
		}
		test.Eq(t, want, got, test.Sprintf("cdiVersion %q", declared))
	}
}

func TestCheckWithoutCDI(t *testing.T) {
	target, err := Lookup("containerd-1.6")
	must.NoError(t, err)
	err = target.Check(newSpec(func(*specs.Spec) {}))
	test.ErrorContains(t, err, "upgrade to 1.7 or 2.x")
}

// Every device counts. The CDI library (specs-go v1.1.1) is built with the loop
// variables of Go before 1.22, and for hostPath and mount types looks at the last
// device only.
func TestNeedsOfEveryDevice(t *testing.T) {
	spec := newSpec(func(s *specs.Spec) {
		s.Devices = append(s.Devices, specs.Device{Name: "b"})
		s.Devices[0].ContainerEdits.DeviceNodes = []*specs.DeviceNode{{Path: "/dev/b", HostPath: "/dev/c"}}
	})
	test.Eq(t, "0.5.0", Lowest(spec), test.Sprint("needs"))
}
