package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// buildIndex makes an index over two architectures, and returns its archive and those of
// the images.
func buildIndex(t *testing.T) (index string, images map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		must.NoError(t, os.MkdirAll(filepath.Join(dir, arch), 0o755))
		must.NoError(t, os.Rename(program(t, "dra-driver", "GOARCH="+arch), filepath.Join(dir, arch, "dra-driver")))
		must.NoError(t, os.WriteFile(filepath.Join(dir, arch+".cdx.json"), []byte(`{"bomFormat": "CycloneDX", "arch": "`+arch+`"}`), 0o644))
	}
	index = filepath.Join(dir, "index.tar")
	args := []string{
		"--tag", tag, "--platform", "linux/amd64,linux/arm64", "--output", filepath.Join(dir, "image-{arch}.tar"), "--index", index,
		"--sbom", filepath.Join(dir, "{arch}.cdx.json"), "--binary", filepath.Join(dir, "{arch}", "dra-driver"),
	}
	must.NoError(t, run(args, func(string) string { return "" }, io.Discard, io.Discard))
	return index, map[string]string{"amd64": filepath.Join(dir, "image-amd64.tar"), "arm64": filepath.Join(dir, "image-arm64.tar")}
}

// unpack extracts a tar file into a directory.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("tar", "-xf", archive, "-C", dir).CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
	return dir
}

// TestIndex puts a layout into a registry: there is an image for each platform, whose
// user is not root, and the bill of materials of each is among its referrers.
func TestIndex(t *testing.T) {
	archive, _ := buildIndex(t)
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := server.URL + "/v2/rdma/driver"
	push(t, unpack(t, archive), repository)

	var index v1.IndexManifest
	get(t, repository+"/manifests/v1.2.3", &index)
	var arches []string
	for _, m := range index.Manifests {
		arches = append(arches, m.Platform.Architecture)
		var manifest v1.Manifest
		get(t, repository+"/manifests/"+m.Digest.String(), &manifest)
		var config v1.ConfigFile
		get(t, repository+"/blobs/"+manifest.Config.Digest.String(), &config)
		if config.Architecture != m.Platform.Architecture || config.Config.User != user {
			t.Errorf("architecture %s, user %s", config.Architecture, config.Config.User)
		}
		var referrers v1.IndexManifest
		get(t, repository+"/referrers/"+m.Digest.String(), &referrers)
		if len(referrers.Manifests) != 1 || referrers.Manifests[0].ArtifactType != string(sbomType) {
			t.Fatalf("referrers of %s: %+v", m.Platform, referrers.Manifests)
		}
		var referrer v1.Manifest
		get(t, repository+"/manifests/"+referrers.Manifests[0].Digest.String(), &referrer)
		var sbom struct{ Arch string }
		get(t, repository+"/blobs/"+referrer.Layers[0].Digest.String(), &sbom)
		test.Eq(t, m.Platform.Architecture, sbom.Arch,
			test.Sprintf("the bill of materials of %s is that", m.Platform))
	}
	test.Eq(t, []string{"amd64", "arm64"}, arches, test.Sprint("platforms"))
}

// push writes all of a layout to a repository, as `oras cp --recursive` does.
func push(t *testing.T, dir, repository string) {
	t.Helper()
	all, err := layout.ImageIndexFromPath(dir)
	must.NoError(t, err)
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	must.NoError(t, err)
	for _, blob := range blobs {
		content := readFile(t, blob)
		put(t, http.MethodPost, repository+"/blobs/uploads/?digest=sha256:"+filepath.Base(blob), "application/octet-stream", content)
	}
	manifest, err := all.IndexManifest()
	must.NoError(t, err)
	for _, m := range manifest.Manifests {
		if m.MediaType.IsIndex() {
			var index v1.IndexManifest
			must.NoError(t, json.Unmarshal(readFile(t, filepath.Join(dir, "blobs", "sha256", m.Digest.Hex)), &index))
			for _, below := range index.Manifests {
				pushManifest(t, dir, repository, below.Digest.String(), below)
			}
		}
		pushManifest(t, dir, repository, cmp.Or(m.Annotations["org.opencontainers.image.ref.name"], m.Digest.String()), m)
	}
}

func pushManifest(t *testing.T, dir, repository, reference string, m v1.Descriptor) {
	t.Helper()
	put(t, http.MethodPut, repository+"/manifests/"+reference, string(m.MediaType), readFile(t, filepath.Join(dir, "blobs", "sha256", m.Digest.Hex)))
}

func put(t *testing.T, method, url, mediaType string, content []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(content))
	must.NoError(t, err)
	request.Header.Set("Content-Type", mediaType)
	response, err := http.DefaultClient.Do(request)
	must.NoError(t, err)
	response.Body.Close()
	must.Eq(t, http.StatusCreated, response.StatusCode, must.Sprintf("%s %s: %s", method, url, response.Status))
}

func get(t *testing.T, url string, into any) {
	t.Helper()
	response, err := http.Get(url)
	must.NoError(t, err)
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("get %s: %s: %v", url, response.Status, err)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	must.NoError(t, err)
	return data
}

// TestIndexIsReproducible: two builds in two directories give the same bytes.
func TestIndexIsReproducible(t *testing.T) {
	index, images := buildIndex(t)
	again, imagesAgain := buildIndex(t)
	equalFiles(t, index, again)
	for arch := range images {
		equalFiles(t, images[arch], imagesAgain[arch])
	}
}

// TestAccounts: the user of the image has a name, and it is not root's.
func TestAccounts(t *testing.T) {
	uid, gid, _ := strings.Cut(user, ":")
	test.StrContains(t, accounts["etc/passwd"], ":x:"+uid+":"+gid+":")
	test.StrContains(t, accounts["etc/group"], ":x:"+gid+":")
}
