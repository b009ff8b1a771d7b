package chart

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// TestRender compares what the chart makes of each values file with a golden file,
// and has helm's linter and the API's types read it.
func TestRender(t *testing.T) {
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values files: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".values.yaml")
		t.Run(name, func(t *testing.T) {
			out, err := helm(t, "lint", "--strict", chartDir, "--values", file, "--kube-version", oldest)
			test.NoError(t, err, test.Sprintf("helm lint\n%s", out))
			out = render(t, "--values", file)
			golden.File(t, "testdata/"+name+".golden.yaml", []byte(dashboard.ReplaceAllString(out, "${1}    (monitoring/dashboard.json)\n")))
			test.NotEq(t, 0, len(objects(t, out)), test.Sprint("nothing is rendered"))
		})
	}
}

// TestImage: each pod of the chart has the image, which a digest after the tag pins.
func TestImage(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, tc := range []struct{ set, want string }{
		{"image.tag=v1.2.3", "example.com/rdma:v1.2.3"},
		{"image.tag=v1.2.3@" + digest, "example.com/rdma:v1.2.3@" + digest},
	} {
		out := render(t, "--set", "image.repository=example.com/rdma,"+tc.set)
		images := regexp.MustCompile(`(?m)^ +image: (.*)$`).FindAllStringSubmatch(out, -1)
		test.GreaterEq(t, 2, len(images), test.Sprintf("%s: images %q", tc.set, images))
		for _, image := range images {
			test.Eq(t, strconv.Quote(tc.want), image[1],
				test.Sprintf("%s: image %s; want %q", tc.set, image[1], tc.want))
		}
	}
}

// dashboard is the content of the dashboard's ConfigMap, which TestMonitoringFiles compares
// with its file.
var dashboard = regexp.MustCompile(`(?m)(^  dra-driver-rdma\.json: \|-\n)(?:    .*\n)+`)

// TestNames: objects are named after the release, so that two do not meet, unless
// the user names them.
func TestNames(t *testing.T) {
	for _, tc := range []struct{ release, override, want string }{
		{release, "", fullname},
		{"dra-driver-rdma", "", "dra-driver-rdma"},
		{release, "hca", "hca"},
	} {
		out, err := helm(t, "template", tc.release, chartDir, "--kube-version", oldest, "--set", "fullnameOverride="+tc.override)
		must.NoError(t, err, must.Sprintf("helm template: %v\n%s", err, out))
		for _, obj := range objects(t, out) {
			if set, ok := obj.(*appsv1.DaemonSet); ok && set.Name != tc.want {
				t.Errorf("release %q, override %q: DaemonSet %s, want %s", tc.release, tc.override, set.Name, tc.want)
			}
		}
	}
}

// TestOldKubernetes: a cluster without resource.k8s.io/v1 is refused.
func TestOldKubernetes(t *testing.T) {
	out, err := helm(t, "template", release, chartDir, "--kube-version", "1.33.9")
	if err == nil || !strings.Contains(out, "kubeVersion: >=1.34.0-0") {
		t.Errorf("Kubernetes 1.33: %v\n%s", err, out)
	}
	// Providers add something to the version.
	out, err = helm(t, "template", release, chartDir, "--kube-version", "v1.34.1-gke.100")
	test.NoError(t, err, test.Sprintf("Kubernetes 1.34.1-gke.100\n%s", out))
}
