package topology_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// ncclMachines are those whose file is pinned.
var ncclMachines = []string{
	"amd-pollara", "aws-p5", "azure-ndv5-ib", "dgx-h100-ib", "gb200-cx7", "gb300-cx8", "hgx-b200", "hgx-b300-planes", "hgx-h100",
	"mlx5-sf",
}

var xeon = topology.CPU{Arch: "x86_64", Vendor: "GenuineIntel", Family: 6, Model: 143}

// ncclFile writes the file of a machine for those of its HCAs that containers can have.
func ncclFile(t *testing.T, machine string) string {
	t.Helper()
	m, err := fixture.Load(machine)
	must.NoError(t, err)
	snap, err := rdma.Discover(m.OpenFS())
	must.NoError(t, err)
	var hcas []*rdma.HCA
	for i := range snap.HCAs {
		if snap.HCAs[i].Unusable() == nil {
			hcas = append(hcas, &snap.HCAs[i])
		}
	}
	data, err := topology.NCCL(m.OpenFS(), snap, hcas, xeon)
	must.NoError(t, err)
	return string(data)
}

// TestNCCL: the file of every machine is one that NCCL reads, and those of servers with GPUs
// are pinned.
func TestNCCL(t *testing.T) {
	for _, name := range fixture.Names() {
		if name == "empty-classes" || name == "none" || name == "misbehaving" {
			continue
		}
		text := ncclFile(t, name)
		root, err := parseNCCL(text)
		if err == nil {
			err = root.acceptable()
		}
		test.NoError(t, err, test.Sprintf("%s: %v\n%s", name, err, text))
		if slices.Contains(ncclMachines, name) {
			golden.Bytes(t, name+".nccl.xml", []byte(text))
		}
	}
}

// TestNCCLOfSF: an SF is at its card, where NCCL by itself would not look.
func TestNCCLOfSF(t *testing.T) {
	text := ncclFile(t, "mlx5-sf")
	card := regexp.MustCompile(`(?s)<pci busid="0000:c1:00\.0"[^>]*>\s*<nic>(\s*<net name="[^"]*"/>){2,}\s*</nic>`)
	test.True(t, card.MatchString(text), test.Sprintf("no card with several nets:\n%s", text))
}

func TestParseCPU(t *testing.T) {
	const epyc = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9654\n\nprocessor\t: 1\nmodel\t\t: 99\n"
	got, want := topology.ParseCPU(epyc, "amd64"), (topology.CPU{Arch: "x86_64", Vendor: "AuthenticAMD", Family: 25,
		Model: 17})
	test.True(t, got == want, test.Sprintf("ParseCPU = %+v, want %+v", got, want))
	got = topology.ParseCPU("processor\t: 0\nCPU implementer\t: 0x41\n",
		"arm64")
	test.True(t, got == (topology.CPU{Arch: "arm64"}), test.Sprintf("of arm64: %+v", got))
	m, err := fixture.Load("hgx-h100")
	must.NoError(t, err)
	_, err = topology.NCCL(m.OpenFS(), &rdma.Snapshot{}, nil, topology.ParseCPU("", "amd64"))
	test.ErrorContains(t, err, "vendor_id", test.Sprint("of a CPU without a vendor"))
}

// ncclXML is an element as NCCL keeps it.
type ncclXML struct {
	name       string
	attributes map[string]string
	children   []*ncclXML
}

// parseNCCL reads a file by the rules of NCCL's parser (src/graph/xml.cc of NCCL 2.30.7: xmlGetNode,
// xmlGetToken, xmlGetValue, xmlLoadSub, and the handlers below ncclTopoXmlLoadSystem), in those
// bounds of src/graph/xml.h that all versions since 2.12 keep.
func parseNCCL(text string) (*ncclXML, error) {
	const maxNodes, maxSubs, maxAttributes, maxLength = 256, 32, 16, 254
	inside := map[string][]string{"": {"system"}, "system": {"cpu"}, "cpu": {"pci", "nic"},
		"pci": {"pci", "gpu", "nic"}, "nic": {"net"}}
	tag := regexp.MustCompile(`^<(/?)([a-z]+)((?: [a-z_]+="[^"<>&]*")*)(/?)>`)
	attribute := regexp.MustCompile(` ([a-z_]+)="([^"]*)"`)
	top := &ncclXML{}
	stack, nodes := []*ncclXML{top}, 0
	for text = strings.TrimLeft(text, " \n\r"); text != ""; text = strings.TrimLeft(text, " \n\r") {
		m := tag.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("not a tag: %.60q", text)
		}
		text = text[len(m[0]):]
		at := stack[len(stack)-1]
		if m[1] == "/" {
			if at.name != m[2] {
				return nil, fmt.Errorf("mismatch: %s / %s", at.name, m[2])
			}
			stack = stack[:len(stack)-1]
			continue
		}
		n := &ncclXML{name: m[2], attributes: map[string]string{}}
		for _, a := range attribute.FindAllStringSubmatch(m[3], -1) {
			n.attributes[a[1]] = a[2]
			if len(a[2]) > maxLength || len(n.attributes) > maxAttributes {
				return nil, fmt.Errorf("%s: %s is too long, or there are too many attributes", n.name, a[1])
			}
		}
		at.children = append(at.children, n)
		if nodes++; nodes > maxNodes || len(at.children) > maxSubs || !slices.Contains(inside[at.name], n.name) {
			return nil, fmt.Errorf("%d nodes, %d in %s, now %s", nodes, len(at.children), at.name, n.name)
		}
		if m[4] != "/" {
			stack = append(stack, n)
		}
	}
	if len(stack) != 1 || len(top.children) != 1 || top.children[0].attributes["version"] != "1" {
		return nil, errors.New("want one system of version 1, closed")
	}
	return top.children[0], nil
}

// acceptable checks what NCCL insists on when it makes its graph of the file (ncclTopoAddCpu,
// ncclTopoAddPci and ncclTopoAddNet in src/graph/topo.cc).
func (n *ncclXML) acceptable() error {
	required := map[string][]string{
		"cpu": {"numaid", "arch", "vendor", "familyid", "modelid"},
		"pci": {"busid", "class", "link_speed", "link_width"}, "net": {"name"},
	}
	busid := regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	for _, name := range required[n.name] {
		if _, ok := n.attributes[name]; !ok {
			return fmt.Errorf("%s %v has no %s", n.name, n.attributes, name)
		}
	}
	if n.name == "pci" {
		if !busid.MatchString(n.attributes["busid"]) {
			return fmt.Errorf("busid %q", n.attributes["busid"])
		}
		if _, err := strconv.Atoi(n.attributes["link_width"]); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for _, c := range n.children {
		id := c.name + c.attributes["busid"] + c.attributes["numaid"] + c.attributes["name"]
		if seen[id] {
			return fmt.Errorf("%s stands twice in %s", id, n.name)
		}
		seen[id] = true
		if err := c.acceptable(); err != nil {
			return err
		}
	}
	return nil
}
