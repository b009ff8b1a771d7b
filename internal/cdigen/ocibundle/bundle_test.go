package ocibundle_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/ocibundle"
)

// TestEdit: what changes is as the function says, and nothing else changes.
func TestEdit(t *testing.T) {
	const head = `{"ociVersion":"1.0.2","x":1.50,`
	for _, c := range []struct {
		name, in, want string
		change         func(*oci.Spec)
	}{
		{"nothing", head + ` "mounts":[ ]}`, head + ` "mounts":[ ]}`, func(*oci.Spec) {}},
		{"an element before others", head + `"mounts":[{"destination":"/a","new":2}]}`,
			"{\n\t\"mounts\": [\n\t\t{\n\t\t\t\"destination\": \"/0\"\n\t\t},\n\t\t{\n\t\t\t\"destination\": \"/a\",\n" +
				"\t\t\t\"new\": 2\n" +
				"\t\t}\n\t],\n\t\"ociVersion\": \"1.0.2\",\n\t\"x\": 1.50\n}\n",
			func(s *oci.Spec) { s.Mounts = append([]oci.Mount{{Destination: "/0"}}, s.Mounts...) }},
		{"a removed field", head + `"hostname":"h"}`, "{\n\t\"ociVersion\": \"1.0.2\",\n\t\"x\": 1.50\n}\n",
			func(s *oci.Spec) { s.Hostname = "" }},
		{"a new object", head + `"linux":null}`,
			"{\n\t\"linux\": {\n\t\t\"cgroupsPath\": \"<p>\"\n\t},\n\t\"ociVersion\": \"1.0.2\",\n\t\"x\": 1.50\n}\n",
			func(s *oci.Spec) { s.Linux = &oci.Linux{CgroupsPath: "<p>"} }},
	} {
		got, err := ocibundle.Edit([]byte(c.in), func(s *oci.Spec) error { c.change(s); return nil })
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, c.want)
		}
	}
	failed := errors.New("no device")
	if got, err := ocibundle.Edit([]byte(head+`"hostname":"h"}`), func(*oci.Spec) error { return failed }); got != nil ||
		!errors.Is(err, failed) {
		t.Errorf("after an error: %s, %v", got, err)
	}
}

// FuzzEdit: whatever a configuration says, an edit ends, and a second one that changes nothing returns the same bytes.
func FuzzEdit(f *testing.F) {
	f.Add([]byte(`{"ociVersion":"1","mounts":[null,{"destination":"/a"}],"linux":{"devices":[{}]},"Linux":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ocibundle.Edit(data, func(s *oci.Spec) error { s.Domainname = "set"; return nil })
		if err != nil {
			return
		}
		same, err := ocibundle.Edit(got, func(*oci.Spec) error { return nil })
		if err != nil || string(same) != string(got) {
			t.Errorf("%q becomes %q, and then %q, %v", data, got, same, err)
		}
	})
}

// TestReplaceFails: an error leaves the old configuration and no temporary file.
func TestReplaceFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ocibundle.Config)
	must.NoError(t, os.WriteFile(file, []byte("{}"), 0o644))
	b, err := ocibundle.Open(dir)
	must.NoError(t, err)
	defer b.Close()
	if _, err := b.Read(); err != nil {
		t.Fatal(err)
	}
	must.NoError(t, errors.Join(os.Remove(file), os.Mkdir(file, 0o755)))
	test.Error(t, b.Replace([]byte("new")), test.Sprint("a directory was replaced"))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("entries %v, %v", entries, err)
	}
}

func ExampleEdit() {
	text, err := ocibundle.Edit([]byte(`{"ociVersion": "1.0.2", "vendor": {"kept": true}}`), func(s *oci.Spec) error {
		s.Hostname = "node"
		return nil
	})
	fmt.Printf("%s%v", text, err)
	// Output:
	// {
	// 	"hostname": "node",
	// 	"ociVersion": "1.0.2",
	// 	"vendor": {
	// 		"kept": true
	// 	}
	// }
	// <nil>
}
