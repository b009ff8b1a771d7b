package release

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
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
		"GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw -trimpath -gcflags=all=-dwarf=false", "GOBIN=" + bin, "CGO_ENABLED=0", "GOWORK=off",
	}
	cmd := exec.Command("go", "install", modulePath+"/cmd/cdi-gen@"+version, modulePath+"/cmd/rdma-hook@"+version)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
	test.StrHasPrefix(t, "cdi-gen "+version+" ", tool(t, filepath.Join(bin, "cdi-gen"), "version"),
		test.Sprint("cdi-gen version prints"))
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
	must.NoError(t, os.MkdirAll(dir, 0o755))
	w, err := os.Create(filepath.Join(dir, version+".zip"))
	must.NoError(t, err)
	defer w.Close()
	must.NoError(t, zip.CreateFromDir(w, module.Version{Path: modulePath, Version: version}, source))
	must.NoError(t, copyFile(filepath.Join(source, "go.mod"), filepath.Join(dir, version+".mod")))
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Unix(0, 0).UTC()})
	must.NoError(t, err)
	for name, data := range map[string][]byte{version + ".info": info, "list": []byte(version + "\n")} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	return proxy
}
