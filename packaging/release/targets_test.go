package release

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/shoenig/test/must"
)

// TestReleaseTargets runs the three targets of the release workflow, with real oras, helm and cosign and a registry of
// this test. Two programs stand in for what only the forge has: a key for the identity of the workflow, and a gh that
// records its calls. It compiles for minutes, so it runs with TEST_LONG.
func TestReleaseTargets(t *testing.T) {
	if os.Getenv("TEST_LONG") == "" {
		t.Skip("compiles for minutes: runs with TEST_LONG=1")
	}
	server := httptest.NewServer(registry.New())
	defer server.Close()
	host := strings.Replace(server.URL, "http://127.0.0.1", "localhost", 1) // oras and cosign use plain HTTP there
	chart, err := os.ReadFile(filepath.Join(checkout, "deployments/helm/dra-driver-rdma/Chart.yaml"))
	must.NoError(t, err)
	version := string(regexp.MustCompile(`(?m)^appVersion: (.*)$`).FindSubmatch(chart)[1])
	dist, tools := t.TempDir(), t.TempDir()
	tool(t, "make", "-s", "-C", checkout, "dist", "VERSION="+version, "DIST="+dist)
	tool(t, "make", "-s", "-C", checkout, "publish-tools", "PUBLISH_TOOLS="+tools)
	standIns, key := newStandIns(t, tools)
	calls, says, err := publish(t, dist, standIns+":"+tools, version, "REGISTRY="+host, "COSIGN_PASSWORD=")
	must.NoError(t, err, must.Sprintf("make publish: %v\n%s", err, says))

	digest := regexp.MustCompile(`@(sha256:[0-9a-f]{64})`).FindStringSubmatch(calls)
	if digest == nil || !strings.Contains(calls, "gh release create "+version+" ") {
		t.Fatalf("the release page was not made, or has no digest: %s", calls)
	}
	image, sums := host+"/dra-driver-rdma", filepath.Join(dist, "SHA256SUMS")
	for _, what := range [][]string{
		{"verify", image + "@" + digest[1]},
		{"verify", host + "/rdma-perftest:" + version},
		{"verify", host + "/charts/dra-driver-rdma:" + strings.TrimPrefix(version, "v")},
		{"verify-blob", "--bundle", sums + ".sigstore.json", sums},
	} {
		tool(t, filepath.Join(tools, "cosign"), append(what, "--key", key, "--insecure-ignore-tlog=true")...)
	}
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		for _, name := range []string{image, host + "/rdma-perftest"} {
			tool(t, filepath.Join(tools, "oras"), "manifest", "fetch", "--platform", platform, name+":"+version)
		}
	}
}

// newStandIns makes a key, and a directory of programs to be found before the real ones: a cosign that signs with the
// key and tells no transparency log, a helm that uses plain HTTP, and a gh that has no release.
func newStandIns(t *testing.T, tools string) (dir, public string) {
	t.Helper()
	dir = t.TempDir()
	cosign := filepath.Join(tools, "cosign")
	tool(t, "sh", "-c", "cd "+dir+" && COSIGN_PASSWORD= "+cosign+" generate-key-pair")
	const flags = "--use-signing-config=false --tlog-upload=false"
	write(t, filepath.Join(dir, "cosign"), "#!/bin/sh\ncommand=$1\nshift\n"+
		"exec "+cosign+" $command --key "+dir+"/cosign.key "+flags+` "$@"`+"\n", 0o755)
	write(t, filepath.Join(dir, "helm"), "#!/bin/sh\nPATH=${PATH#*:} exec helm \"$@\" --plain-http\n", 0o755)
	recorder(t, dir, "gh", noRelease)
	return dir, filepath.Join(dir, "cosign.pub")
}
