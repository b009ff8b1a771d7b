package hostconfig

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

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
onUnusable: fail
limits: {handles: 64, objects: 16384}
`))
	must.NoError(t, err)
	want := Edits{
		Env: []string{"A=x=y", "B=2", "NCCL_TOPO_FILE=/opt/topo.xml"},
		Mounts: []cdi.Mount{
			{HostPath: "/etc/site.conf", ContainerPath: "/etc/app.conf"},
			{HostPath: "/opt/site", ContainerPath: "/opt/site"},
			{HostPath: "/opt/topo.xml", ContainerPath: "/opt/topo.xml"},
		},
	}
	test.Eq(t, want, c.Edits())
	if c.Memlock != "4Gi" || c.Userspace != UserspaceHost || c.OnUnusable != "fail" || len(c.Exclude) != 1 ||
		c.Limits.String() != "handles=64,objects=16384" {
		t.Errorf("%+v", c)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                           "empty",
		header + "memlok: 1":                         "line 3: memlok: unknown field\n",
		header + "memlock: lots":                     "line 3: memlock: parse size",
		header + "nodes: [verbs, uverbs]":            "line 3: nodes[1]: unknown nodes",
		header + "nodes:\n- verbs\n- uverbs":         "line 5: nodes[1]: unknown nodes",
		header + "onUnusable: clamp":                 `line 3: onUnusable: want warn, fail or ignore, not "clamp"`,
		header + "nodes: []":                         "line 3: nodes: want at least one",
		header + "names: [x]":                        "line 3: names[0]: unknown name strategy",
		header + "names: []":                         "line 3: names: want at least one",
		header + "exclude: [a, '[']":                 "line 3: exclude[1]: \"[\": syntax error in pattern",
		header + "env:\n  A: b\n  \"A=B\": c":        "line 5: env[\"A=B\"]: no name of an environment variable",
		header + "env: {A: \"\\x01\"}":               "line 3: env.A: the value is not printable text",
		header + "mounts: [{hostPath: x}]":           "line 3: mounts[0]: hostPath \"x\"",
		header + "mounts: [{hostpath: /x}]":          "line 3: mounts[0].hostpath: unknown field\n",
		header + "ncclTopology: topo.xml":            "line 3: ncclTopology: want an absolute path, not \"topo.xml\"",
		header + "ncclTopology: \"/t\\x7f\"":         "line 3: ncclTopology: want printable text, not \"/t\\x7f\"",
		header + "mounts: [{hostPath: \"/t\\x7f\"}]": "line 3: mounts[0]: hostPath \"/t\\x7f\"",
		header + "exclude: ['']":                     "line 3: exclude[0]: want a name or a pattern of names, and it is empty",
		header + "userspace: both":                   "line 3: userspace: want image or host, not \"both\"",
		header + "limits: {handles: 0}":              "line 3: limits: want handles or objects above 0",
		header + "limits: {handles: -1, objects: 1}": "line 3: limits: want handles or objects above 0",
		header + "limits: {handles: many}":           "line 3: limits.handles: want a whole number, not \"many\"\n",
		header + "limits: {qps: 1}":                  "line 3: limits.qps: unknown field\n",
		header + "nodes: verbs":                      "line 3: nodes: want a list, not \"verbs\"\n",
		header + "---\nkind: Other":                  "more than one document",
		"apiVersion: rdma.dev/v2\nkind: Other\n": "line 1: apiVersion: want rdma.dev/v1alpha1, not \"rdma.dev/v2\"\n" +
			"line 2: kind: want HostConfig, not \"Other\"",
		"memlock: 1\n": "apiVersion: want rdma.dev/v1alpha1, not \"\"",
		header + "mounts:\n- hostPath: /a\n  containerPath: /x\n- hostPath: /b\n  containerPath: /x/": "line 6: mounts[1]: /a is mounted at /x already",
		header + "mounts:\n- hostPath: /a\n  containerPath: /..":                                      "line 4: mounts[0]: a mount at / hides all of the image",
		header + "mounts: [{hostPath: /x, containerPath: /t}]\nncclTopology: /t":                      "line 4: ncclTopology: /x is mounted at /t already",
		header + "mounts: [{hostPath: /x}]\nncclTopology: /t\nmemlock: 0\nexclude: ['[']":             "line 5: memlock: parse size \"0\"",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("%q: error %v; want one with %q", text, err, want)
		}
	}
}

// TestManyProblems: ten are reported.
func TestManyProblems(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("a: b\n", 1500):                          "and 1489 more errors",
		header + "nodes: [" + strings.Repeat("x, ", 3000) + "]": "and 2990 more errors",
	} {
		_, err := Parse([]byte(text))
		if err == nil || len(err.Error()) > 2000 || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q...: error %.200v, want %s", text, err, want)
		}
	}
}

// TestMounts: one that stands twice is mounted once, and a host path may have a colon.
func TestMounts(t *testing.T) {
	c, err := Parse([]byte(header + "mounts:\n- hostPath: /dev/0000:3b:00.0\n- hostPath: /t\n- hostPath: /t/\n" +
		"ncclTopology: /t\n"))
	must.NoError(t, err)
	want := []cdi.Mount{{HostPath: "/dev/0000:3b:00.0", ContainerPath: "/dev/0000:3b:00.0"},
		{HostPath: "/t", ContainerPath: "/t"}}
	test.Eq(t, want, c.Edits().Mounts)
}

func TestFlags(t *testing.T) {
	if m, err := ParseMount("/a:/b"); err != nil || m != (Mount{"/a", "/b"}) {
		t.Errorf("%+v, %v", m, err)
	}
	for _, bad := range []string{"a", "/a:b", "", "/a:", "/a:/b:ro", "/dev/0000:3b:00.0", "/a:/", "/a\x7f", "/a:/\xff"} {
		if _, err := ParseMount(bad); err == nil {
			t.Errorf("mount %q is taken", bad)
		}
	}
	if name, value, err := ParseEnv("A=b=c"); err != nil || name != "A" || value != "b=c" {
		t.Errorf("%s %s %v", name, value, err)
	}
	for _, bad := range []string{"A", "=b", "", "A=\xff", "\xff=b", "RDMA_DEVICE_X=b"} {
		if _, _, err := ParseEnv(bad); err == nil {
			t.Errorf("variable %q is taken", bad)
		}
	}
}

// FuzzParse: what a file may say, a CDI spec can say.
func FuzzParse(f *testing.F) {
	f.Add([]byte(header + "mounts: [{hostPath: /x}]\nenv: {A: b}"))
	f.Add([]byte(header + "mounts: [{hostPath: \"/x\\u0085\"}]\nncclTopology: /t"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			return
		}
		edits := c.Edits()
		device := cdi.Device{Name: "a", Env: append(edits.Env, "A=b"), Mounts: edits.Mounts}
		if _, err := cdi.NewSpec(cdi.KindHCA, []cdi.Device{device}); err != nil {
			t.Errorf("%q is taken, and makes no spec: %v", data, err)
		}
	})
}

// FuzzFlags: a mount and a variable that are taken from a flag are good in a file too.
func FuzzFlags(f *testing.F) {
	f.Add("/opt/topo.xml:/etc/topo.xml", "NCCL_DEBUG=INFO")
	f.Add("/a:b", "=x")
	f.Add("/x/../y:", "A==")
	f.Fuzz(func(t *testing.T, mount, env string) {
		c := &Container{}
		if m, err := ParseMount(mount); err == nil {
			c.Mounts = append(c.Mounts, m)
		}
		if name, value, err := ParseEnv(env); err == nil {
			c.Env = map[string]string{name: value}
		}
		c.Validate(func(field string, err error) {
			test.NoError(t, err, test.Sprintf("%s of flags %q and %q", field, mount, env))
		})
	})
}
