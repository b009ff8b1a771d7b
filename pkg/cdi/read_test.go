package cdi_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"go.yaml.in/yaml/v3"
	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// goodSpecs have every field that CDI has.
var goodSpecs = []string{`cdiVersion: 1.1.0
kind: rdma.dev/hca
annotations: {a: b}
devices:
- name: mlx5_0
  annotations: {c: d}
  containerEdits:
    env: [A=b]
    deviceNodes:
    - {path: /dev/infiniband/uverbs0, hostPath: /dev/infiniband/uverbs0, type: c, major: 231, minor: 192, fileMode: 438, permissions: rw, uid: 0, gid: 0}
    - path: /dev/infiniband/rdma_cm
    netDevices: [{hostInterfaceName: eth1, name: net1}]
    hooks:
    - {hookName: createRuntime, path: /usr/bin/rdma-hook, args: [rdma-hook, --memlock=unlimited], env: [A=b], timeout: 3}
    mounts:
    - {hostPath: /opt/site, containerPath: /opt/site, options: [ro, bind], type: none}
    intelRdt: {closID: a, l3CacheSchema: b, memBwSchema: c, schemata: [d], enableMonitoring: true}
    additionalGids: [1]
- name: mlx5_1
  containerEdits: {deviceNodes: [{path: /dev/infiniband/uverbs1}]}
containerEdits:
  env: [A=b]
  hooks: [{hookName: createRuntime, path: /usr/bin/rdma-hook}]
  mounts: [{hostPath: /a, containerPath: /b}]
`, `{"cdiVersion":"0.3.0","kind":"rdma.dev/hca","devices":[{"name":"all","containerEdits":{"deviceNodes":[{"path":"/dev/infiniband/uverbs0","permissions":"rw"}]}}]}`}

// TestNulls: a null in a list is an error that says where, and no panic.
func TestNulls(t *testing.T) {
	for _, list := range []string{"deviceNodes", "netDevices", "hooks", "mounts"} {
		for where, text := range map[string]string{
			"devices[1].containerEdits." + list +
				"[0]": "devices: [{name: a, containerEdits: {env: [A=b]}}, {name: b, containerEdits: {" + list + ": [~]}}]",
			"containerEdits." + list +
				"[0]": "devices: [{name: a, containerEdits: {env: [A=b]}}]\ncontainerEdits: {" + list + ": [null]}",
		} {
			spec, err := cdi.ParseSpec([]byte("cdiVersion: 1.1.0\nkind: rdma.dev/hca\n" + text))
			test.True(t, spec == nil && err != nil &&
				err.Error() == where+" is null, and the CDI library panics on it: remove it, or say what it is",
				test.Sprintf("%s: %v, %v", text, spec, err))
		}
	}
}

// TestMutations: nothing that goes missing, or is something else, in a good spec makes a panic, and the verdict is
// that of
// the library wherever it comes to one.
func TestMutations(t *testing.T) {
	tried, refused, panicked := 0, 0, 0
	for _, good := range goodSpecs {
		sameVerdict(t, []byte(good))
		for _, text := range mutations(t, good) {
			tried++
			ours, theirs := sameVerdict(t, text)
			if ours != nil {
				refused++
			}
			if errors.Is(theirs, errPanic) {
				panicked++
			}
		}
	}
	t.Logf("%d mutations, %d are refused; the library panics on %d", tried, refused, panicked)
	test.True(t, panicked != 0 && refused != tried, test.Sprint("the mutations find nothing"))
}

// TestLargeSpecs: what a spec may hold has bounds, and few words report it.
func TestLargeSpecs(t *testing.T) {
	header := "cdiVersion: 0.3.0\nkind: rdma.dev/hca\n"
	for text, want := range map[string]string{
		header + strings.Repeat("a: b\n", 1500):                                            "and 1489 more errors",
		header + numbered("f%d: 1\n", 3000):                                                "and 2990 more errors",
		header + "devices:\n" + strings.Repeat("- {name: '', containerEdits: {}}\n", 3000): "more errors",
		header + "devices: [" + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "]":  "nested more than 64 deep",
		header + strings.Repeat("# text\n", 2<<20):                                         "larger than 8 MiB",
	} {
		_, err := cdi.ParseSpec([]byte(text))
		test.True(t, err != nil && len(err.Error()) <= 4000 && strings.Contains(err.Error(), want),
			test.Sprintf("%.60q...: error %.300v, want %s", text, err, want))
	}
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// FuzzParseSpec compares the verdicts on any text.
func FuzzParseSpec(f *testing.F) {
	for _, good := range goodSpecs {
		f.Add([]byte(good))
	}
	f.Add([]byte("devices: [{containerEdits: {hooks: [~]}}]"))
	f.Add([]byte("- a\n- &a [*a]"))
	f.Add([]byte("---\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) { sameVerdict(t, data) })
}

var errPanic = errors.New("panic")

// sameVerdict compares what we say of a file with what the library says.
func sameVerdict(t *testing.T, data []byte) (ours, theirs error) {
	t.Helper()
	spec, ours := cdi.ParseSpec(data)
	want, theirs := libraryReads(t, data)
	switch {
	case errors.Is(theirs, errPanic):
		test.Error(t, ours, test.Sprintf("we take what the library panics on: %v\n%s", theirs, data))
	case (ours == nil) != (theirs == nil):
		t.Errorf("we say %v, and the library %v:\n%s", ours, theirs, data)
	case ours == nil && !reflect.DeepEqual(spec, want):
		t.Errorf("we read %+v, and the library %+v:\n%s", spec, want, data)
	}
	return ours, theirs
}

func libraryReads(t *testing.T, data []byte) (spec *specs.Spec, err error) {
	file := filepath.Join(os.TempDir(), fmt.Sprintf("dra-driver-rdma-test-%d.yaml", os.Getpid()))
	must.NoError(t, os.WriteFile(file, data, 0o644))
	defer os.Remove(file)
	defer func() {
		if r := recover(); r != nil {
			spec, err = nil, fmt.Errorf("%w: %v", errPanic, r)
		}
	}()
	read, err := cdiapi.ReadSpec(file, 0)
	if err != nil {
		return nil, err
	}
	return read.Spec, nil
}

// mutations returns a file with each value in turn missing, doubled, or replaced by something else.
func mutations(t *testing.T, text string) [][]byte {
	var root yaml.Node
	if yaml.Unmarshal([]byte(text), &root) != nil {
		return nil
	}
	var all [][]byte
	keep := func() {
		if out, err := marshal(&root); err == nil {
			all = append(all, out)
		}
	}
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		for i, child := range n.Content {
			for _, other := range others {
				n.Content[i] = other
				keep()
			}
			n.Content[i] = child
			content := n.Content
			n.Content = append(append([]*yaml.Node{}, content[:i]...), content[i+1:]...)
			if n.Kind == yaml.SequenceNode {
				keep()
			}
			n.Content = append(append([]*yaml.Node{}, content...), child)
			if n.Kind == yaml.SequenceNode {
				keep()
			}
			n.Content = content
			walk(child)
		}
	}
	walk(&root)
	return all
}

// others are what a value is replaced by.
var others = []*yaml.Node{
	{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"},
	{Kind: yaml.ScalarNode, Tag: "!!str", Value: ""},
	{Kind: yaml.ScalarNode, Tag: "!!str", Value: "x"},
	{Kind: yaml.ScalarNode, Tag: "!!int", Value: "-1"},
	{Kind: yaml.SequenceNode},
	{Kind: yaml.SequenceNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}}},
	{Kind: yaml.MappingNode},
}

// marshal writes a tree, unless the encoder panics on it.
func marshal(root *yaml.Node) (data []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("encode: %v", r)
		}
	}()
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	err = errors.Join(enc.Encode(root), enc.Close())
	return out.Bytes(), err
}
