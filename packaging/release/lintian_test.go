package release

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestLintian: Debian's checker finds nothing, and each exception in the package is one that it needs.
func TestLintian(t *testing.T) {
	need(t, "lintian", "lintian")
	dir, _ := packages(t)
	for _, arch := range arches {
		deb := filepath.Join(dir, "cdi-gen_1.2.3-1_"+arch+".deb")
		out := tool(t, "lintian", "--allow-root", "--tag-display-limit", "0", "--fail-on", "error,warning", deb)
		test.Eq(t, "", out, test.Sprintf("lintian on the package for %s", arch))
	}
}

// link is a link of Markdown: the text before its target, the path, and the fragment.
var link = regexp.MustCompile(`(\]\()([^)#\s]+)(#[^)\s]*)?\)`)

// TestLinks: each relative link of a packaged document leads to a packaged file, and each to the project to a file
// of the checkout.
func TestLinks(t *testing.T) {
	dir, source := packages(t)
	prefix := t.TempDir()
	archive := filepath.Join(dir, "cdi-gen_1.2.3_linux_"+runtime.GOARCH+".tar.gz")
	tool(t, "tar", "-C", prefix, "--strip-components=1", "-xzf", archive)
	docs, err := filepath.Glob(filepath.Join(prefix, "share/doc/cdi-gen/*.md"))
	if err != nil || len(docs) < 10 {
		t.Fatalf("documents %q, %v", docs, err)
	}
	site, below := homepage+"/blob/"+version+"/", 0
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		must.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target := filepath.Join(filepath.Dir(doc), m[2])
			if of, ok := strings.CutPrefix(m[2], site); ok {
				below++
				target = filepath.Join(source, of)
				if of, _, _ = strings.Cut(of, "#"); strings.HasPrefix(of, "examples") || !strings.Contains(of, "/") {
					target = filepath.Join(checkout, of) // not copied for the tests
				}
			} else if strings.Contains(m[2], ":") {
				continue
			}
			_, err := os.Stat(target)
			test.NoError(t, err, test.Sprintf("%s: dead link %s", filepath.Base(doc), m[2]))
		}
	}
	test.NotEq(t, 0, below, test.Sprint("no link to the project's site"))
}

// TestRelink: links with a fragment, to a directory, to the same document and to elsewhere.
func TestRelink(t *testing.T) {
	for _, test := range []struct{ dir, text, want string }{
		{"docs/", "[a](hook.md#x)", "[a](hook.md#x)"},
		{"", "[a](docs/hook.md)", "[a](hook.md)"},
		{"docs/", "[a](../README.md)", "[a](README.md)"},
		{"docs/", "[a](adr/README.md#b) [c](#d)", "[a](S/docs/adr/README.md#b) [c](#d)"},
		{"docs/", "[a](../examples) [b](https://x/y)", "[a](S/examples) [b](https://x/y)"},
	} {
		cmd := exec.Command("../relink.sh", test.dir, "S/")
		cmd.Stdin = strings.NewReader(test.text)
		if got, err := cmd.Output(); err != nil || string(got) != test.want {
			t.Errorf("%s in %s is %s, %v; want %s", test.text, test.dir, got, err, test.want)
		}
	}
}

// TestLicenses: each module in a bill of materials has a license, and the packages have the text.
func TestLicenses(t *testing.T) {
	dir, _ := packages(t)
	for _, name := range []string{"cdi-gen_1.2.3", "dra-driver-rdma_1.2.3", "rdma-perftest_1.2.3"} {
		data, err := os.ReadFile(filepath.Join(dir, name+"_linux_"+runtime.GOARCH+".cdx.json"))
		must.NoError(t, err)
		var bom struct {
			Components []struct {
				Name     string
				Licenses []struct {
					Expression string
					License    struct{ ID string }
				}
			}
		}
		must.NoError(t, json.Unmarshal(data, &bom))
		got := map[string]string{}
		for _, c := range bom.Components {
			if len(c.Licenses) != 1 || c.Licenses[0].Expression+c.Licenses[0].License.ID == "" {
				t.Errorf("%s: %s has licenses %v", name, c.Name, c.Licenses)
				continue
			}
			got[c.Name] = c.Licenses[0].Expression + c.Licenses[0].License.ID
		}
		for module, want := range map[string]string{
			"std": "BSD-3-Clause", "golang.org/x/sys": "BSD-3-Clause", "rdma-hook": "Apache-2.0",
			"go.yaml.in/yaml/v3": "Apache-2.0 AND MIT", "github.com/spf13/cobra": "Apache-2.0",
		} {
			if got[module] != want && (got[module] != "" || name == "cdi-gen_1.2.3") {
				t.Errorf("%s: %s has license %q; want %s", name, module, got[module], want)
			}
		}
	}
	root := t.TempDir()
	tool(t, "dpkg-deb", "-x", filepath.Join(dir, "cdi-gen_1.2.3-1_"+runtime.GOARCH+".deb"), root)
	for file, want := range map[string]string{
		"copyright":       " go.yaml.in/yaml/v3: Apache-2.0 AND MIT\n",
		"third-party.txt": "Copyright (c) 2006-2010 Kirill Simonov",
	} {
		text, err := os.ReadFile(filepath.Join(root, "usr/share/doc/cdi-gen", file))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q: %v", file, want, err)
		}
	}
}

// TestIdentify: a text that is no license has none, and one with two has both.
func TestIdentify(t *testing.T) {
	const mit = "Permission is hereby granted, free of charge, to any\n\tperson obtaining a copy"
	const bsd = "Redistribution and use in source and binary forms ... this list of\nconditions"
	for text, want := range map[string]string{
		"all rights reserved": "", mit: "MIT", "Apache License\n Version 2.0, January 2004\n" + mit: "Apache-2.0 AND MIT",
		bsd: "BSD-2-Clause", bsd + " may not be used to endorse": "BSD-3-Clause",
	} {
		file := filepath.Join(t.TempDir(), "LICENSE")
		write(t, file, text, 0o644)
		got := strings.Fields(tool(t, "../license.sh", file))
		test.Eq(t, want, strings.Join(got, " "), test.Sprintf("%q has licenses", text))
	}
}
