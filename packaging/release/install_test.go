package release

import (
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// contents are files that every package must have, below /usr.
var contents = []string{
	"bin/cdi-gen", "bin/rdma-hook",
	"share/bash-completion/completions/cdi-gen", "share/fish/vendor_completions.d/cdi-gen.fish",
	"share/doc/cdi-gen/README.md", "share/doc/cdi-gen/hook.md", "share/doc/cdi-gen/topology.md", "share/doc/cdi-gen/topology.svg",
	"share/man/man1/cdi-gen.1.gz", "share/man/man1/cdi-gen-generate.1.gz", "share/man/man1/cdi-gen-topology.1.gz", "share/man/man8/rdma-hook.8.gz",
}

func has(t *testing.T, where, listing string, more ...string) {
	t.Helper()
	for _, name := range slices.Concat(contents, more) {
		test.StrContains(t, listing, "usr/"+name+"\n", test.Sprintf("%s has no /usr/%s", where, name))
	}
}

func TestDeb(t *testing.T) {
	need(t, "dpkg-deb", "dpkg")
	dir, _ := packages(t)
	for _, arch := range arches {
		deb := filepath.Join(dir, "cdi-gen_1.2.3-1_"+arch+".deb")
		info := tool(t, "dpkg-deb", "-I", deb)
		for _, want := range []string{"Package: cdi-gen\n", "Version: 1.2.3-1\n", "Architecture: " + arch + "\n", "Maintainer: ", "Description: RDMA devices for containers, by name\n"} {
			test.StrContains(t, info, want, test.Sprintf("%s says nothing", deb))
		}
		listing := tool(t, "dpkg-deb", "-c", deb)
		has(t, deb, listing, "share/doc/cdi-gen/copyright", "share/zsh/vendor-completions/_cdi-gen")
		for line := range strings.Lines(listing) {
			mode, owner, _ := strings.Cut(line, " ")
			want := "-rw-r--r--"
			switch {
			case strings.HasSuffix(line, "/\n"):
				want = "drwxr-xr-x"
			case strings.Contains(line, "/usr/bin/"):
				want = "-rwxr-xr-x"
			}
			if mode != want || !strings.HasPrefix(owner, "root/root ") {
				t.Errorf("want %s root/root: %s", want, line)
			}
		}
	}
}

func TestRPM(t *testing.T) {
	need(t, "rpm", "rpm")
	dir, _ := packages(t)
	for _, arch := range []string{"x86_64", "aarch64"} {
		file := filepath.Join(dir, "cdi-gen-1.2.3-1."+arch+".rpm")
		// A database of its own: the host's may not exist.
		list := func(what string) string { return tool(t, "rpm", "--dbpath", t.TempDir(), "-qp"+what, file) }
		has(t, file, list("l"), "share/licenses/cdi-gen/LICENSE", "share/zsh/site-functions/_cdi-gen")
		has(t, file, list("l"), "share/licenses/cdi-gen/third-party.txt")
		test.Eq(t, "/etc/default/cdi-gen\n", list("c"), test.Sprintf("%s: configuration files", file))
		for what, want := range map[string]string{
			"L": "/usr/share/licenses/cdi-gen/LICENSE\n", "d": "/usr/share/doc/cdi-gen/cdi-gen.md\n",
		} {
			test.StrContains(t, list(what), want, test.Sprintf("%s: rpm -q%s has no", file, what))
		}
		got := tool(t, "rpm", "--dbpath", t.TempDir(), "-qp", "--queryformat", "%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{LICENSE} %{BUILDTIME} %{BUILDHOST}", file)
		test.Eq(t, "cdi-gen 1.2.3 1 "+arch+" Apache-2.0 "+epoch+" reproducible", got,
			test.Sprint(file))
	}
}

func TestTar(t *testing.T) {
	dir, _ := packages(t)
	for _, arch := range arches {
		prefix := filepath.Join(t.TempDir(), "usr")
		must.NoError(t, os.Mkdir(prefix, 0o755))
		tool(t, "tar", "-C", prefix, "--strip-components=1", "-xzf", filepath.Join(dir, "cdi-gen_1.2.3_linux_"+arch+".tar.gz"))
		var listing strings.Builder
		info, err := os.Stat(filepath.Join(prefix, "bin/cdi-gen"))
		must.NoError(t, err)
		if !info.ModTime().Equal(date) || info.Mode() != 0o755 {
			t.Errorf("cdi-gen is of %v, mode %v; want %v, 0755", info.ModTime(), info.Mode(), date)
		}
		err = filepath.WalkDir(prefix, func(path string, _ os.DirEntry, err error) error {
			listing.WriteString(strings.TrimPrefix(path, filepath.Dir(prefix)) + "\n")
			return err
		})
		must.NoError(t, err)
		has(t, arch, listing.String(), "share/doc/cdi-gen/LICENSE", "share/zsh/site-functions/_cdi-gen")
	}
}

// checkPrograms runs what was installed below a prefix.
func checkPrograms(t *testing.T, prefix string) {
	t.Helper()
	test.StrHasPrefix(t, "cdi-gen "+version+" ", tool(t, filepath.Join(prefix, "bin/cdi-gen"), "version"),
		test.Sprint("cdi-gen version prints"))
	test.StrContains(t, tool(t, filepath.Join(prefix, "bin/rdma-hook"), "--version"), version,
		test.Sprint("rdma-hook --version prints"))
	tool(t, "bash", "-n", filepath.Join(prefix, "share/bash-completion/completions/cdi-gen"))
	help := tool(t, filepath.Join(prefix, "bin/cdi-gen"), "generate", "--help")
	page := roff(t, filepath.Join(prefix, "share/man/man1/cdi-gen-generate.1.gz"))
	for word := range strings.FieldsSeq(help) {
		if flag := strings.TrimRight(word, ".,;:"); strings.HasPrefix(flag, "--") && !strings.Contains(page, flag) {
			t.Errorf("the manual page of generate has no %s", flag)
		}
	}
	for _, want := range []string{"cdi-gen-list(1)", "rdma-hook(8)", ".SH EXIT STATUS"} {
		test.StrContains(t, roff(t, filepath.Join(prefix, "share/man/man1/cdi-gen.1.gz")), want,
			test.Sprint("the manual page of cdi-gen has no"))
	}
}

// roff returns a page as it was before its hyphens were escaped.
func roff(t *testing.T, file string) string {
	t.Helper()
	return strings.ReplaceAll(string(gunzip(t, file)), `\-`, "-")
}

// gunzip returns what a compressed file holds.
func gunzip(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	must.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must.NoError(t, err)
	data, err := io.ReadAll(z)
	must.NoError(t, err)
	return data
}

// TestManPagesFormat: groff has nothing to complain of.
func TestManPagesFormat(t *testing.T) {
	need(t, "groff", "groff-base")
	dir, _ := packages(t)
	prefix := t.TempDir()
	tool(t, "tar", "-C", prefix, "--strip-components=1", "-xzf", filepath.Join(dir, "cdi-gen_1.2.3_linux_amd64.tar.gz"))
	pages, err := filepath.Glob(filepath.Join(prefix, "share/man/man*/*.gz"))
	if err != nil || len(pages) < 8 {
		t.Fatalf("pages %q, %v", pages, err)
	}
	for _, page := range pages {
		plain := filepath.Join(t.TempDir(), "page")
		must.NoError(t, os.WriteFile(plain, []byte(tool(t, "gzip", "-dc", page)), 0o644))
		out, err := exec.Command("groff", "-K", "utf8", "-man", "-ww", "-z", plain).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("groff on %s: %v\n%s", filepath.Base(page), err, out)
		}
	}
}
