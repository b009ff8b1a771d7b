package release

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
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
	host := strings.Replace(server.URL, "http://127.0.0.1", "localhost", 1) // which all three take for one without TLS
	chart := tool(t, "cat", filepath.Join(checkout, "deployments/helm/dra-driver-rdma/Chart.yaml"))
	version := appVersion.FindStringSubmatch(chart)[1]
	dist, tools, stands := t.TempDir(), t.TempDir(), t.TempDir()
	run := func(target string, vars ...string) {
		t.Helper()
		cmd := exec.Command("make", append([]string{"-s", "-C", checkout, target, "VERSION=" + version, "DIST=" + dist}, vars...)...)
		cmd.Env = append(os.Environ(), "REGISTRY="+host, "COSIGN_PASSWORD=", "CALLS="+filepath.Join(stands, "calls"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
	}
	run("dist")
	run("publish-tools", "PUBLISH_TOOLS="+tools)
	key := keyPair(t, tools, stands)
	run("publish", "PUBLISH_TOOLS="+stands+":"+tools)

	calls := tool(t, "cat", filepath.Join(stands, "calls"))
	digest := regexp.MustCompile(`@(sha256:[0-9a-f]{64})`).FindStringSubmatch(calls)
	if digest == nil || !strings.Contains(calls, "gh release create "+version+" ") {
		t.Fatalf("the release page was not made, or has no digest: %s", calls)
	}
	cosign, verify := filepath.Join(tools, "cosign"), []string{"--key", key, "--insecure-ignore-tlog=true"}
	tool(t, cosign, append([]string{"verify", host + "/dra-driver-rdma@" + digest[1]}, verify...)...)
	tool(t, cosign, append([]string{"verify", host + "/charts/dra-driver-rdma:" + version[1:]}, verify...)...)
	sums := filepath.Join(dist, "SHA256SUMS")
	tool(t, cosign, append([]string{"verify-blob", "--bundle", sums + ".sigstore.json", sums}, verify...)...)
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		tool(t, filepath.Join(tools, "oras"), "manifest", "fetch", "--platform", platform, host+"/dra-driver-rdma:"+version)
	}
}

// keyPair makes a key, and the programs that stand in: a cosign that signs with it and tells no transparency log, and a
// gh that has no release.
func keyPair(t *testing.T, tools, stands string) (public string) {
	t.Helper()
	tool(t, "sh", "-c", "cd "+stands+" && COSIGN_PASSWORD= "+tools+"/cosign generate-key-pair")
	write(t, filepath.Join(stands, "cosign"), "#!/bin/sh\ncommand=$1\nshift\nexec "+tools+"/cosign $command --key "+stands+
		`/cosign.key --use-signing-config=false --tlog-upload=false "$@"`+"\n", 0o755)
	write(t, filepath.Join(stands, "helm"), "#!/bin/sh\nPATH=${PATH#*:} exec helm \"$@\" --plain-http\n", 0o755)
	write(t, filepath.Join(stands, "gh"), `#!/bin/sh`+"\n"+`echo gh "$@" >>"$CALLS"`+"\n"+`[ "$2" != view ]`+"\n", 0o755)
	return filepath.Join(stands, "cosign.pub")
}
