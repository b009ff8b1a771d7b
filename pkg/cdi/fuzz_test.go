package cdi_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// FuzzEncode: a spec that NewSpec makes reads back from a file as it was, in both
// formats, whatever the names and values in it.
func FuzzEncode(f *testing.F) {
	for _, seed := range [][3]string{
		{"mlx5_0", "NCCL_IB_HCA==mlx5_0,mlx5_3", "unlimited"},
		{"pci-0000-3b-00-0", "A=", "4Gi"},
		{"0000:3b:00.0", "A=line\nbreak", "--x"},
		{"yes", "B=null", "0x1f"},
		{"1e3", "C= leading and trailing ", "# no comment"},
		{"x", "D=<&>\u2028\"'\\", "é"},
		{"a", "E=\xff\xfe", "\x00"},
		{"no", "F={a: b}", "[1]"},
		{"a", "G=\u0085\u00a0\ufeff", "\r\n"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, name, env, arg string) {
		spec, err := cdi.NewSpec("rdma.dev/hca", []cdi.Device{
			{Name: name, Nodes: nodes(uverbs0, rdmaCM), Env: []string{env},
				Hook: &cdi.Hook{Path: "/usr/bin/rdma-hook", Options: args.Options{Claim: arg}}},
		})
		if err != nil {
			return
		}
		loadsAsWritten(t, spec)
	})
}

// FuzzEncodeMounts: the same for the paths of mounts, of the hook and of nodes, and for the
// names of HCAs in its arguments: all that is not the user's alone.
func FuzzEncodeMounts(f *testing.F) {
	for _, seed := range [][3]string{
		{"/opt/site", "/opt/site", "mlx5_0"},
		{"/opt/a\x7fb", "/opt/a", "rxe0"},
		{"/opt/\xff\xfe", "/x: y", "- #"},
		{"/opt/two\nlines\ttab", "/opt/\u0085\u2028\ufeff", "rxe\x1b[0m"},
		{"/ leading", "/trailing ", "yes"},
		{"/a\\u0000'\"", "/{}[]&*!|>%@`", "\uffff"},
		{"/\ufffd\U0001f600", "/\r\n", "\ufffe"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, host, container, ibdev string) {
		spec, err := cdi.NewSpec("rdma.dev/hca", []cdi.Device{{
			Name: "a", Nodes: nodes(rdma.Node{Kind: rdma.NodeUverbs, Name: ibdev}),
			Mounts: []cdi.Mount{{HostPath: host, ContainerPath: container}},
			Hook:   with(&cdi.Hook{Path: "/usr/bin/rdma-hook"}, limit(ibdev, 1, 0)),
		}})
		if err != nil {
			return
		}
		loadsAsWritten(t, spec)
	})
}

// loadsAsWritten checks that the CDI library reads of a file what was written to it.
func loadsAsWritten(t *testing.T, spec *specs.Spec) {
	t.Helper()
	for _, format := range []cdi.Format{cdi.JSON, cdi.YAML} {
		data, err := cdi.Encode(spec, format)
		must.NoError(t, err)
		file := filepath.Join(t.TempDir(), "spec."+string(format))
		must.NoError(t, os.WriteFile(file, data, 0o644))
		got, err := cdiapi.ReadSpec(file, 0)
		must.NoError(t, err, must.Sprintf("%v\n%s", err, data))
		test.True(t, reflect.DeepEqual(got.Spec, spec), test.Sprintf("reads back as %+v\n%s", got.Spec, data))
	}
}
