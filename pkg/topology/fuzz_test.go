package topology_test

import (
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// lines is a sysfs in which each line of a text is a PCI function: the target of
// its link, its class, numa_node and physfn, separated by blanks.
type lines struct {
	fstest.MapFS
	functions map[string][]string
}

func newLines(text string) lines {
	l := lines{fstest.MapFS{}, map[string][]string{}}
	for i, line := range strings.Split(text, "\n") {
		name := path.Join("bus/pci/devices", string(rune('a'+i%26))+string(rune('a'+i/26%26)))
		f := append(strings.Split(line, " "), "", "", "")
		l.functions[name] = f
		for file, content := range map[string]string{"class": f[1], "numa_node": f[2],
			"vendor": "0x10de", "device": "0x2330"} {
			l.MapFS[path.Join(name, file)] = &fstest.MapFile{Data: []byte(content)}
		}
	}
	return l
}

func (l lines) ReadLink(name string) (string, error) {
	if f := l.functions[name]; f != nil && f[0] != "" {
		return f[0], nil
	}
	if f := l.functions[path.Dir(name)]; f != nil && f[3] != "" {
		return f[3], nil
	}
	return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
}

// FuzzDiscover: whatever the tree, nothing panics, every writer writes, distances
// are the same both ways, and the picture is well-formed XML.
func FuzzDiscover(f *testing.F) {
	for _, s := range []string{
		"", "\n\n",
		"../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0 0x030200 0",
		"devices/pci0000:00/0000:00:01.0 0x120000 -1\ndevices/pci0000:00/0000:00:01.0 0x120000 -1",
		"devices/pci0000:00/0000:00:01.0 0x030200 99999999999999999999 ../0000:00:02.0\ndevices/pci0000:00/0000:00:02.0 0x030200 1 ../0000:00:01.0",
		"devices/pci0000:5d/0000:5d:05.5/pci10000:00/10000:01:00.0 0x030000 0",
		// Another function's address as a bridge, and a loop of two.
		"pci0000:00/0000:00:01.0/0000:00:02.0 0x030200 0\npci0000:00/0000:00:02.0/0000:00:01.0 0x030200 0\npci0000:00/0000:00:01.0 0x030200 0",
	} {
		f.Add(s, "eth0")
	}
	f.Add("pci0000:00/0000:00:01.0 0x030200 0", "<&\x1b[2J\xff")
	f.Fuzz(func(t *testing.T, text, netdev string) {
		snap := &rdma.Snapshot{HCAs: []rdma.HCA{
			{IBDev: netdev, Identity: rdma.Identity{Netdev: netdev}},
			{IBDev: "mlx5_0", Identity: rdma.Identity{PCI: "0000:19:00.0"},
				PCI: &rdma.PCIFunction{Address: "0000:19:00.0", Root: "pci0000:00"}, Ports: []rdma.Port{{Netdev: netdev}}},
		}}
		host := topology.Discover(newLines(text), snap)
		for _, a := range host.Devices {
			for _, b := range host.Devices {
				x, y := topology.Between(a, b), topology.Between(b, a)
				test.Eq(t, y, x, test.Sprintf("%s to %s", a.Name, b.Name))
			}
		}
		for _, write := range []func(io.Writer) error{host.WriteMatrix, host.WriteSVG,
			func(w io.Writer) error { return host.WriteTree(w, topology.BoxLines) }} {
			test.False(t, strings.ContainsRune(string(written(t, write)), '\x1b'),
				test.Sprint("the output has an escape character"))
		}
		checkXML(t, written(t, host.WriteSVG))
	})
}

func checkXML(t *testing.T, svg []byte) {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		_, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		must.NoError(t, err, must.Sprintf("the picture is no XML: %v\n%s", err, svg))
	}
}
