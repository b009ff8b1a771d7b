package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/doctor"
	"github.com/rdma-dev/dra-driver-rdma/internal/support"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// foreignSpec is another program's spec, with a secret in each field that can hold one.
const foreignSpec = `cdiVersion: 1.1.0
kind: example.com/nic
annotations: {token: hvs.geheim01, geheim02.key: x}
devices:
- name: geheim03
  annotations: {contact: "root-password=geheim04"}
  containerEdits:
    env: [API=geheim05, geheim06=1]
    deviceNodes: [{path: /dev/infiniband/uverbs0}, {path: /dev/geheim07, hostPath: /dev/infiniband/../geheim08}]
    netDevices: [{hostInterfaceName: geheim09, name: geheim10}]
    hooks:
    - {hookName: createRuntime, path: /usr/bin/geheim11, args: [h, --password, geheim12, --key=geheim13], env: [X=geheim14]}
    mounts: [{hostPath: /srv/geheim15/x, containerPath: /geheim16, options: [ro, context=geheim17], type: geheim18}]
    intelRdt: {closID: geheim19, l3CacheSchema: geheim20, memBwSchema: geheim21, schemata: [geheim22]}
    additionalGids: [7]
- name: all
  containerEdits: {env: ["B=geheim23"]}
containerEdits:
  env: ["C=geheim24\ngeheim25", "D=ge\"heim26"]
  deviceNodes: [{path: /dev/infiniband/uverbs977}]
`

// plantSecrets makes a host with a secret in each file that a report reads.
func plantSecrets(t *testing.T) (root string) {
	t.Helper()
	root = rdmatest.Root(t, "hgx-h100")
	for file, text := range map[string]string{
		"etc/hostname":              "geheim30\n",
		"etc/hosts":                 "127.0.1.1 geheim30.geheim31.example geheim30\n10.1.2.3 db17\n",
		"etc/passwd":                "root:x:0:0::/root:/bin/sh\ngeheim32:x:1000:1000::/srv/geheim32:/bin/sh\n",
		"proc/sys/kernel/osrelease": "6.12.9-geheim30\n",
		"etc/os-release":            "ID=debian\nHOME_URL=http://geheim30.geheim31.example/\n",
		"etc/cdi/site.yaml":         foreignSpec,
		"etc/cdi/site.json": `{"cdiVersion": "0.6.0", "kind": "example.com/nic", "devices": [` +
			`{"name": "geheim03", "containerEdits": {"env": ["X=1"]}}]}`,
		"etc/cdi/no-yaml.yaml":              "/dev/infiniband: 'geheim40\n\t\x00",
		"etc/cdi/no-spec.yaml":              "kind: 7\ndevices: geheim41-is-long-for-a-message\nenv: [\"geheim42\"]\n/dev/infiniband: 1\n",
		"etc/cdi/no-kind.yaml":              "cdiVersion: 0.6.0\nkind: geheim43\ndevices: [{name: geheim44}]\n",
		"etc/cdi/no-name.yaml":              "cdiVersion: 0.6.0\nkind: a.b/c\ndevices:\n- name: '-geheim45'\n  containerEdits: {env: [geheim46]}\n",
		"etc/cdi/geheim30.yaml":             strings.ReplaceAll(foreignSpec, "example.com/nic", "example.com/other"),
		"var/run/cdi/rdma.dev-hca_x.yaml":   "cdiVersion: 0.6.0\nkind: rdma.dev/hca\nannotations: {a: geheim50}\n" + ownEdits,
		"etc/docker/daemon.json":            `{"registry-mirrors": ["https://u:geheim60@r"], "features": {"cdi": geheim61}}`,
		"etc/containerd/config.toml":        "version = 2\n[plugins.x]\ntoken = \"geheim62\"\nbroken = geheim63\n",
		"etc/containers/containers.conf":    "[containers]\nenv = [\"A=geheim64\"]\ndefault_ulimits = [\"geheim65\"]\n",
		"etc/crio/crio.conf":                "[crio]\nx = \"geheim66\"\ny = geheim67\n",
		"etc/security/limits.conf":          "geheim32 soft memlock 64\n",
		"proc/cmdline":                      "quiet luks=geheim68\n",
		"etc/modprobe.d/x.conf":             "# geheim69\noptions ib_core netns_mode=geheim70\n",
		"etc/systemd/system/docker.service": "[Service]\nEnvironment=T=geheim71\nLimitMEMLOCK=geheim72\n",
	} {
		put(t, filepath.Join(root, file), text, 0o644)
	}
	for _, file := range []string{"usr/bin/docker", "usr/bin/containerd", "usr/bin/podman", "usr/bin/crio"} {
		put(t, filepath.Join(root, file), "", 0o755)
	}
	return root
}

const ownEdits = `devices:
- name: mlx5_0
  containerEdits:
    env: [TOKEN=geheim51]
    deviceNodes: [{path: /dev/infiniband/uverbs0}]
    hooks:
    - {hookName: createRuntime, path: /opt/bin/rdma-hook-1.2, args: [rdma-hook, --memlock=unlimited]}
    - {hookName: createRuntime, path: /opt/geheim52, args: [geheim53]}
    mounts:
    - {hostPath: /usr/lib64/libibverbs.so.1, containerPath: /usr/lib64/libibverbs.so.1, options: [ro]}
    - {hostPath: /home/geheim54/x, containerPath: /x}
`

// TestReportSecrets: a report of a host with a secret in every file has none of them, and still says what a spec is.
func TestReportSecrets(t *testing.T) {
	root := plantSecrets(t)
	if r := cdigen(t, "doctor", "--host-root", root, "-o", "json"); strings.Count(r.stdout, "geheim") < 5 {
		t.Errorf("doctor repeats too few secrets for this test: %s", r.stdout)
	}
	file := filepath.Join(t.TempDir(), "r.tar.gz")
	cdigen(t, "report", "--host-root", root, "--to", file).expect(t, exitOK, "written")
	files := untar(t, []byte(read(t, file)))
	for name, text := range files {
		for _, part := range []string{name, text} {
			lower := strings.ToLower(part)
			test.Less(t, 0, strings.Index(lower, "heim"), test.Sprint(name))
		}
	}
	text := files["cdi-gen-report/etc/cdi/site.yaml"]
	spec, err := cdi.ParseSpec([]byte(text))
	must.NoError(t, err, must.Sprintf("%v:\n%s", err, text))
	nodes := spec.Devices[0].ContainerEdits.DeviceNodes
	if spec.Kind != "example.com/nic" || len(spec.Devices) != 2 || len(nodes) != 1 ||
		nodes[0].Path != "/dev/infiniband/uverbs0" || len(spec.ContainerEdits.DeviceNodes) != 1 {
		t.Errorf("the outline is\n%s", text)
	}
	own := files["cdi-gen-report/var/run/cdi/rdma.dev-hca_x.yaml"]
	for _, want := range []string{"name: mlx5_0", "TOKEN=(hidden)", "/opt/bin/rdma-hook-1.2", "--memlock=unlimited",
		"/usr/lib64/libibverbs.so.1"} {
		test.StrContains(t, own, want, test.Sprint("a spec of ours has no"))
	}
	for _, want := range []string{"spec-invalid", "spec-twins", "/etc/cdi/no-kind.yaml", "(hidden)"} {
		test.StrContains(t, files["cdi-gen-report/doctor.json"], want, test.Sprint("the findings have no"))
	}
}

// TestReportOfContainers: what a report repeats of a running container is hidden, wherever a quote stands in it.
func TestReportOfContainers(t *testing.T) {
	const text = `the container's library is in "/opt/geheim'01": set "geheim\"02" there`
	r := doctor.Report{Findings: []finding.Finding{{ID: "container-unusable", Message: text},
		{ID: "spec-invalid", Message: text, Subjects: []string{"/etc/cdi/x.yaml"}},
		{Severity: finding.NotSeen, Message: "provider in container 0123: " + text}}}
	hideQuotes(&r, []reportSpec{{path: "/etc/cdi/x.yaml"}})
	for _, f := range r.Findings {
		got := strings.TrimPrefix(f.Message, "provider in container 0123: ")
		if got != "the container's library is in (hidden): set (hidden) there" {
			t.Errorf("it says %s", got)
		}
	}
}

// TestReportRefuses: what the search finds keeps the report from being written, and is not repeated.
func TestReportRefuses(t *testing.T) {
	x := &tree.Tree{}
	for name, data := range map[string]string{
		"sys/class/infiniband/mlx5_0/node_guid": "a088:c203:0025:1000\n", "sys/class/net/p0/address": "a0:88:c2:25:10:00\n",
	} {
		must.NoError(t, x.Write(tree.Entry{Path: name, Data: data}))
	}
	scrubber := capture.NewScrubber(x, capture.Names{Hosts: []string{"geheim30"}, Users: []string{"alice"}}, nil)
	scrubber.Hide("pass word")
	for secret, kind := range map[string]string{
		"GEHEIM30": "a name of a host", "xa088c2251000": "an address", "a0-88-c2-25-10-00": "an address",
		"A088:C203:0025:1000": "an address", "fe80::a288:c2ff:fe25:1000": "an address", "by alice": "a name of a user",
		"pass word": "a value of a CDI spec", "001025": "", "": "",
	} {
		for _, f := range []support.File{
			{Name: "doctor.json", Data: []byte(`{"a":"` + secret + `"}`)}, {Name: "etc/cdi/" + secret},
		} {
			err := search([]support.File{{Name: "README"}, f}, scrubber)
			if kind == "" && err == nil {
				continue
			}
			if err == nil || !strings.Contains(err.Error(), kind) || strings.Contains(err.Error(), secret) {
				t.Errorf("%q in %s: %v", secret, f.Name, err)
			}
		}
	}
}
