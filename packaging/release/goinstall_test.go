package release

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const modulePath = "github.com/rdma-dev/dra-driver-rdma"

// TestGoInstall: go install MODULE/cmd/cdi-gen@VERSION works, as it will once the
// version is tagged. For that the module must be one that Go can zip (no file name
// with a colon, say), and must not replace modules.
func TestGoInstall(t *testing.T) {
	_, source := packages(t)
	proxy := moduleProxy(t, source)
	// The real cache serves the dependencies; the module itself goes to one of its
	// own, since this version of it does not exist.
	cache, rest := strings.TrimSpace(tool(t, "go", "env", "GOMODCACHE")), strings.TrimSpace(tool(t, "go", "env", "GOPROXY"))
	bin := t.TempDir()
	env := []string{
		"GOPROXY=file://" + proxy + ",file://" + cache + "/cache/download," + rest, "GOSUMDB=off", "GOPRIVATE=", "GONOPROXY=none",
		"GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw -trimpath", "GOBIN=" + bin, "CGO_ENABLED=0", "GOWORK=off",
	}
	if _, err := command(t.Context(), t.TempDir(), env, "go", "install", modulePath+"/cmd/cdi-gen@"+version, modulePath+"/cmd/rdma-hook@"+version); err != nil {
		t.Fatal(err)
	}
	if got := tool(t, filepath.Join(bin, "cdi-gen"), "version"); !strings.HasPrefix(got, "cdi-gen "+version+" ") {
		t.Errorf("cdi-gen version prints %q; want the version of the module", got)
	}
	if _, err := os.Stat(filepath.Join(bin, "rdma-hook")); err != nil {
		t.Error(err)
	}
}

// moduleProxy writes what a module proxy serves of this version
// (https://go.dev/ref/mod#goproxy-protocol).
func moduleProxy(t *testing.T, source string) string {
	t.Helper()
	proxy := t.TempDir()
	dir := filepath.Join(proxy, modulePath, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	err := writeFile(filepath.Join(dir, version+".zip"), func(w io.Writer) error {
		return zip.CreateFromDir(w, module.Version{Path: modulePath, Version: version}, source)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := copyFile(filepath.Join(source, "go.mod"), filepath.Join(dir, version+".mod")); err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Unix(0, 0).UTC()})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{version + ".info": info, "list": []byte(version + "\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return proxy
}
