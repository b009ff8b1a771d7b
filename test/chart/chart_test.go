// Package chart tests the Helm chart without a cluster: what it renders, what it
// refuses, and that its words agree with the driver's code and with the documents.
// That a real API server takes it is proved in test/cluster/e2e.
//
// The tests need the helm program that test/cluster builds and caches. Where it is
// missing they are skipped, or fail if CI is set.
package chart

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// The chart, and how the tests install it.
const (
	chartDir  = "../../deployments/helm/dra-driver-rdma"
	release   = "rdma"
	namespace = "rdma-system"
	fullname  = "rdma-dra-driver-rdma"
	// oldest is the oldest Kubernetes that the chart supports.
	oldest = "1.34.0"
)

// helmVersion finds the version that test/cluster pins.
var helmVersion = regexp.MustCompile(`(?m)helm\.sh/helm/v3 (v\S+)`)

// helmProgram returns the newest build of the pinned helm in the cache of
// test/cluster, which keeps programs as bin/NAME-VERSION-HASH/.
func helmProgram(t *testing.T) string {
	t.Helper()
	pin, err := os.ReadFile("../cluster/build/cluster/go.mod")
	must.NoError(t, err)
	version := helmVersion.FindSubmatch(pin)
	must.NotNil(t, version, must.Sprintf("test/cluster/build/cluster/go.mod requires no helm:\n%s", pin))
	cache := os.Getenv("DRA_RDMA_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		must.NoError(t, err)
		cache = filepath.Join(dir, "dra-driver-rdma")
	}
	pattern := filepath.Join(cache, "bin", "helm-"+string(version[1])+"-*", "helm")
	found, err := filepath.Glob(pattern)
	must.NoError(t, err)
	if len(found) == 0 {
		needs.Missing(t, fmt.Errorf("no helm at %s: build it with `go -C test/cluster run ./cmd/cluster build`", pattern))
	}
	return found[len(found)-1]
}

// helm runs helm and returns what it printed and whether it succeeded.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(helmProgram(t), args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG=/nonexistent")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}

// rendered are the manifests by the arguments of tryRender: half of the renders were asked for before.
var rendered sync.Map

// tryRender renders the chart, once for the same arguments if they name no file that a test wrote.
func tryRender(t *testing.T, args ...string) (string, error) {
	t.Helper()
	key := strings.Join(args, "\x00")
	if out, ok := rendered.Load(key); ok {
		return out.(string), nil
	}
	out, err := helm(t, append([]string{"template", release, chartDir, "--namespace", namespace, "--kube-version", oldest}, args...)...)
	if err == nil && !slices.ContainsFunc(args, filepath.IsAbs) {
		rendered.Store(key, out)
	}
	return out, err
}

// render returns the manifests as helm would apply them.
func render(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryRender(t, args...)
	must.NoError(t, err, must.Sprintf("helm template %v: %v\n%s", args, err, out))
	return out
}

// objects decodes manifests strictly: a misspelled field is an error here, while
// an API server only warns of it.
func objects(t *testing.T, manifests string) []runtime.Object {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests)))
	var objs []runtime.Object
	for {
		doc, err := reader.Read()
		if err == io.EOF {
			return objs
		}
		must.NoError(t, err)
		if len(bytes.TrimSpace(doc)) == 0 {
			continue
		}
		if foreign.Match(doc) {
			objs = append(objs, unknown(t, doc))
			continue
		}
		obj, _, err := decoder.Decode(doc, nil, nil)
		must.NoError(t, err, must.Sprintf("decode manifest: %v\n%s", err, doc))
		objs = append(objs, obj)
	}
}

// foreign are objects of the Prometheus operator, whose types are in no library of
// Kubernetes.
var foreign = regexp.MustCompile(`(?m)^apiVersion: monitoring\.coreos\.com/`)

func unknown(t *testing.T, doc []byte) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	must.NoError(t, yaml.UnmarshalStrict(doc, &obj.Object), must.Sprintf("decode manifest\n%s", doc))
	return obj
}

// The hooks of the chart: their objects exist while helm uninstalls or tests only.
const (
	noHook    = ""
	preDelete = "pre-delete"
	helmTest  = "test"
)

// all returns the objects of one type in a release, without those of hooks.
func all[T runtime.Object](t *testing.T, args ...string) []T {
	t.Helper()
	return ofType[T](t, noHook, args...)
}

// ofType returns the objects of one type of a hook.
func ofType[T runtime.Object](t *testing.T, hook string, args ...string) []T {
	t.Helper()
	var found []T
	for _, obj := range objects(t, render(t, args...)) {
		m, err := meta.Accessor(obj)
		must.NoError(t, err)
		if o, ok := obj.(T); ok && m.GetAnnotations()["helm.sh/hook"] == hook {
			found = append(found, o)
		}
	}
	return found
}

// one returns the only object of a type.
func one[T runtime.Object](t *testing.T, args ...string) T {
	t.Helper()
	return hook[T](t, noHook, args...)
}

// hook returns the only object of a type of a hook.
func hook[T runtime.Object](t *testing.T, event string, args ...string) T {
	t.Helper()
	found := ofType[T](t, event, args...)
	must.Eq(t, 1, len(found), must.Sprintf("%d objects of type %T, want one", len(found), *new(T)))
	return found[0]
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must.NoError(t, err)
	return string(data)
}

// diff shows the lines that differ.
func diff(want, got string) string {
	return "(-want +got):\n" + cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n"))
}
