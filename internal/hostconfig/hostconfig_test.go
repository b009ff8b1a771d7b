package hostconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

const header = "apiVersion: rdma.dev/v1alpha1\nkind: HostConfig\n"

func TestParse(t *testing.T) {
	c, err := Parse([]byte(header + `
memlock: 4Gi
nodes: [verbs, mad]
names: [pci, guid]
exclude: [mlx5_1]
env: {B: "2", A: x=y}
mounts:
- hostPath: /opt/site/
- hostPath: /etc/site.conf
  containerPath: /etc/app.conf
ncclTopology: /opt/topo.xml
userspace: host
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Edits{
		Env: []string{"A=x=y", "B=2", "NCCL_TOPO_FILE=/opt/topo.xml"},
		Mounts: []cdi.Mount{
			{HostPath: "/etc/site.conf", ContainerPath: "/etc/app.conf"},
			{HostPath: "/opt/site", ContainerPath: "/opt/site"},
			{HostPath: "/opt/topo.xml", ContainerPath: "/opt/topo.xml"},
		},
	}
	if diff := cmp.Diff(want, c.Edits()); diff != "" {
		t.Error(diff)
	}
	if c.Memlock != "4Gi" || c.Userspace != UserspaceHost || len(c.Exclude) != 1 {
		t.Errorf("%+v", c)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "empty",
		header + "memlok: 1":                     "line 3: field memlok not found",
		header + "memlock: lots":                 "memlock: parse size",
		header + "nodes: [verbs, uverbs]":        "nodes[1]: unknown nodes",
		header + "names: [x]":                    "names[0]: unknown name strategy",
		header + "env: {\"A=B\": c}":             "env: \"A=B\"",
		header + "mounts: [{hostPath: x}]":       "mounts[0]: hostPath \"x\"",
		header + "mounts: [{hostpath: /x}]":      "line 3: field hostpath not found",
		header + "ncclTopology: topo.xml":        "ncclTopology",
		header + "userspace: both":               "userspace \"both\": want image or host",
		header + "nodes: verbs":                  "line 3",
		header + "---\nkind: Other":              "more than one document",
		"apiVersion: rdma.dev/v2\nkind: Other\n": "want rdma.dev/v1alpha1, HostConfig",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want one with %q", text, err, want)
		}
	}
}

func TestFlags(t *testing.T) {
	if m, err := ParseMount("/a:/b"); err != nil || m != (Mount{"/a", "/b"}) {
		t.Errorf("%+v, %v", m, err)
	}
	for _, bad := range []string{"a", "/a:b", ""} {
		if _, err := ParseMount(bad); err == nil {
			t.Errorf("mount %q is taken", bad)
		}
	}
	if name, value, err := ParseEnv("A=b=c"); err != nil || name != "A" || value != "b=c" {
		t.Errorf("%s %s %v", name, value, err)
	}
	for _, bad := range []string{"A", "=b", ""} {
		if _, _, err := ParseEnv(bad); err == nil {
			t.Errorf("variable %q is taken", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(header + "mounts: [{hostPath: /x}]\nenv: {A: b}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := Parse(data); err == nil {
			c.Edits()
		}
	})
}
