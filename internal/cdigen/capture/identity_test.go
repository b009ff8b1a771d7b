package capture_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// site is a machine as one of a site: with random addresses, names made of them, and its host's name in many places.
type site struct {
	*rand.Rand
	tree    *tree.Tree
	names   capture.Names
	secrets map[string]string // what must not be left, in lower case, with its kind
}

var addressText = regexp.MustCompile(`\b(?:[0-9a-f]{2}:){5,19}[0-9a-f]{2}\b|\b(?:[0-9a-f]{4}:){3,7}[0-9a-f]{4}\b`)

func newSite(t *testing.T, machine string, seed uint64) *site {
	t.Helper()
	m, err := fixture.Load(machine)
	must.NoError(t, err)
	s := &site{Rand: rand.New(rand.NewPCG(seed, 7)), secrets: map[string]string{}}
	host := "h" + s.letters(5+s.IntN(6)) + fmt.Sprint("-", s.IntN(1000))
	domain := s.letters(7) + ".example.com"
	s.names = capture.Names{Hosts: []string{host + "." + domain}}
	s.secret("host", host, domain)
	renamed := map[string]string{}
	for i, e := range append(m.Tree().Children("sys/class/net"), m.Tree().Children("sys/class/infiniband")...) {
		if base := path.Base(e.Path); base != "lo" && s.IntN(2) == 0 {
			renamed[base] = s.name(i, host)
		}
	}
	tails := map[string]string{"000000": "000000"}
	s.tree = &tree.Tree{}
	for _, e := range m.Tree().Entries() {
		e.Path, e.Target = renamePath(e.Path, renamed), renamePath(e.Target, renamed)
		switch {
		case path.Base(e.Path) == "node_desc":
			hca := path.Base(path.Dir(e.Path))
			texts := []string{host, host + " " + hca, hca + "@" + host, strings.ToUpper(host) + "-" + hca + " rack" + host}
			e.Data = texts[s.IntN(len(texts))] + "\n"
		case path.Base(e.Path) == "address" || strings.HasSuffix(e.Path, "_guid") || path.Base(path.Dir(e.Path)) == "gids":
			e.Data = addressText.ReplaceAllStringFunc(e.Data, func(a string) string { return s.other(a, tails) })
			s.addresses(e)
		case e.Data != "":
			e.Data = renamePath(e.Data, renamed)
		}
		must.NoError(t, s.tree.Write(e))
	}
	return s
}

func (s *site) letters(n int) string {
	var out strings.Builder
	for range n {
		out.WriteByte("ghjkmnpqrstvwxyz"[s.IntN(16)]) // no digits of an address
	}
	return out.String()
}

func (s *site) secret(kind string, values ...string) {
	for _, value := range values {
		s.secrets[strings.ToLower(value)] = kind
	}
}

// name is a name that an interface or HCA has on some hosts.
func (s *site) name(i int, host string) string {
	switch s.IntN(4) {
	case 0:
		mac := fmt.Sprintf("b83fd2%06x", s.IntN(1<<24))
		s.secret("name", mac)
		return "enx" + mac
	case 1:
		guid := fmt.Sprintf("2c9030%07x", s.IntN(1<<28))
		s.secret("name", guid)
		return "rocex" + guid
	case 2:
		ip := fmt.Sprintf("172.%d.%d.%d", 16+s.IntN(16), s.IntN(256), i)
		s.secret("name", ip)
		return "gre" + ip
	}
	return fmt.Sprintf("%s-ib%d", host, i)
}

func renamePath(name string, renamed map[string]string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		core := strings.TrimPrefix(strings.TrimSpace(part), "lower_")
		if to := renamed[core]; to != "" {
			parts[i] = strings.Replace(part, core, to, 1)
		}
	}
	return strings.Join(parts, "/")
}

// other gives an address random last bytes, the same ones to all that belong together.
func (s *site) other(text string, tails map[string]string) string {
	digits := strings.ReplaceAll(text, ":", "")
	end := digits[len(digits)-6:]
	if tails[end] == "" {
		tails[end] = fmt.Sprintf("%06x", 1+s.IntN(1<<24-1))
	}
	return group(digits[:len(digits)-6]+tails[end], ":", strings.IndexByte(text, ':'))
}

func group(digits, separator string, width int) string {
	var out []string
	for i := 0; i < len(digits); i += width {
		out = append(out, digits[i:min(i+width, len(digits))])
	}
	return strings.Join(out, separator)
}

// addresses notes the addresses in a file, in all their spellings.
func (s *site) addresses(e tree.Entry) {
	for _, found := range addressText.FindAllString(e.Data, -1) {
		digits := strings.ReplaceAll(found, ":", "")
		if len(strings.TrimLeft(digits[max(0, len(digits)-16):], "0")) < 8 {
			continue
		}
		s.secret("address", spellings(digits)...)
	}
}

// spellings writes an address as programs do: the kernel, udev, ip, ibstat, mlx5's switchdev, Cisco's switches.
func spellings(digits string) []string {
	var out []string
	if len(digits) >= 32 {
		gid := digits[len(digits)-32:]
		if ip, err := netip.ParseAddr(group(gid, ":", 4)); err == nil {
			out = append(out, ip.Unmap().String())
		}
		digits = gid[16:]
		if strings.HasPrefix(digits, "0000ffff") {
			return append(out, digits)
		}
	}
	mac := digits[:6] + digits[len(digits)-6:]
	eui := mac[:6] + "fffe" + mac[6:]
	out = append(out, group(mac, ":", 2), group(mac, "-", 2), group(mac, ".", 4), mac, eui, group(eui, ":", 4))
	if len(digits) == 16 {
		var reversed strings.Builder
		for i := 14; i >= 0; i -= 2 {
			reversed.WriteString(digits[i : i+2])
		}
		out = append(out, digits, group(digits, ":", 2), group(digits, ":", 4), reversed.String(),
			strings.TrimLeft(digits, "0"))
	}
	return slices.DeleteFunc(out, func(s string) bool { return len(s) < 10 })
}

// plant puts secrets into contents and descriptions at random.
func (s *site) plant(t *testing.T, n int) {
	t.Helper()
	var files []tree.Entry
	for _, e := range s.tree.Entries() {
		if e.Kind == tree.File && !strings.HasSuffix(e.Data, "\r") {
			files = append(files, e)
		}
	}
	all := slices.Sorted(func(yield func(string) bool) {
		for secret := range s.secrets {
			if !yield(secret) {
				return
			}
		}
	})
	for range n {
		e, secret := files[s.IntN(len(files))], all[s.IntN(len(all))]
		if s.IntN(2) == 0 {
			secret = strings.ToUpper(secret)
		}
		e.Data = strings.TrimSuffix(e.Data, "\n") + " x=" + secret + "\n"
		must.NoError(t, s.tree.Replace(e))
	}
}

// left returns a secret that a text still has.
func (s *site) left(text string) string {
	text = strings.ToLower(text)
	for secret := range s.secrets {
		if strings.Contains(text, secret) {
			return secret
		}
	}
	return ""
}

// testKey makes equal addresses of equal ones: a random key has a few bits in common with them now and then.
var testKey = []byte("a test")

func scrub(t *testing.T, x *tree.Tree, names capture.Names) *tree.Tree {
	t.Helper()
	out, err := capture.Scrub(x, capture.NewScrubber(x, names, testKey))
	must.NoError(t, err, must.Sprint(names))
	return out
}

// TestScrubSites: whatever identifies a host, in whatever place and spelling, is in no scrubbed tree. What is left is
// still the machine.
func TestScrubSites(t *testing.T) {
	machines := []string{"roce-sriov", "roce-lag", "dgx-h100-ib", "mlx5-sf", "switchdev", "omnipath-hfi1", "soft-pci",
		"azure-mana"}
	if os.Getenv("TEST_LONG") != "" {
		machines = append(machines, "hgx-h100") // the largest: what it has, the others have too
	}
	for seed, machine := range machines {
		t.Run(machine, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, machine, uint64(seed))
			scrubbed := scrub(t, s.tree, s.names)
			test.Eq(t, "", s.left(format(t, scrubbed)))
			if before, after := shape(t, s.tree), shape(t, scrubbed); before != after {
				t.Errorf("the machine was\n%s\nand is\n%s", before, after)
			}
			s.plant(t, 40)
			scrubbed = scrub(t, s.tree, s.names)
			test.Eq(t, "", s.left(format(t, scrubbed)), test.Sprint("planted"))
		})
	}
}

// shape says what the driver sees of a machine, without names and addresses.
func shape(t *testing.T, x *tree.Tree) string {
	t.Helper()
	m, err := fixture.Parse("site", []byte(format(t, x)))
	must.NoError(t, err)
	snap, err := rdma.Discover(m.FS(t))
	must.NoError(t, err)
	var out []string
	for _, h := range snap.HCAs {
		out = append(out, fmt.Sprintf("%s %v %s %d ports, netdev %v, uverbs %v", pciOf(&h), h.Protocol, h.Function,
			len(h.Ports), len(h.Ports) > 0 && h.Ports[0].Netdev != "", h.Uverbs != nil))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// TestLeak: the search finds what a scrubber would have to replace, wherever it stands.
func TestLeak(t *testing.T) {
	s := newSite(t, "roce-sriov", 1)
	scrubber := capture.NewScrubber(s.tree, s.names, testKey)
	for secret, kind := range s.secrets {
		for _, text := range []string{secret, "a " + strings.ToUpper(secret) + "\n", "/x/y" + secret + ".d/z"} {
			test.NotEq(t, "", scrubber.Leak(text), test.Sprintf("%s %q is not found in %q", kind, secret, text))
			if strings.Contains(text, "/x/yfe80::") {
				continue // no text has this address after a letter: a report with it would be refused
			}
			if got := scrubber.Text(text); s.left(got) != "" {
				t.Errorf("%q becomes %q", text, got)
			}
		}
	}
	for _, text := range []string{"", "0000:3b:00.0", "mlx5_0 is ACTIVE", "0x0000000000000000", "16.35.2000", "fe80::1"} {
		test.Eq(t, "", scrubber.Leak(text), test.Sprintf("%q", text))
	}
	for _, value := range []string{"s3cr3t value", "1234567", "abc", "(hidden)", "severity", "uverbs0"} {
		scrubber.Hide(value)
	}
	const others = " 1234567 abc severity uverbs0"
	test.Eq(t, "(hidden)"+others, scrubber.Text("s3cr3t value"+others))
	if scrubber.Leak("x s3cr3t value") == "" || scrubber.Leak("severity uverbs0 abc") != "" {
		t.Error("the search for hidden values is wrong")
	}
}

// TestScrubSwitch: mlx5 writes the GUID of its system as the identifier of its switch, with the bytes in reverse.
func TestScrubSwitch(t *testing.T) {
	x := &tree.Tree{}
	for name, data := range map[string]string{
		"sys/class/infiniband/mlx5_0/sys_image_guid": "b83f:d203:00a1:2b3c\n",
		"sys/class/net/p0/phys_switch_id":            "3c2ba10003d23fb8\n",
		"sys/class/net/r0/phys_switch_id":            "3c2ba10003d23fb8\n",
		"sys/class/net/q0/phys_switch_id":            "4d2ba10003d23fb8\n",
	} {
		must.NoError(t, x.Write(tree.Entry{Path: name, Data: data}))
	}
	got := scrub(t, x, capture.Names{})
	id := func(netdev string) string { return read(t, got, "sys/class/net/"+netdev+"/phys_switch_id") }
	if strings.Contains(format(t, got), "2ba1") || id("p0") != id("r0") || id("p0") == id("q0") || len(id("p0")) != 16 {
		t.Errorf("the switches are %s %s %s", id("p0"), id("r0"), id("q0"))
	}
}

// TestSaysNothing: a host may have the name of a part of sysfs, which is no secret then.
func TestSaysNothing(t *testing.T) {
	m, err := fixture.Load("roce-sriov")
	must.NoError(t, err)
	for _, name := range []string{"net", "node", "pci", "mlx5", "infiniband", "active", "ubuntu", "host", "host1", "xhostx",
		"port", "devices", "class", "report", "localhost.localdomain", "a", "1", ""} {
		names := capture.Names{Hosts: []string{name + ".rack.example.com"}, Users: []string{name}}
		got := scrub(t, m.Tree(), names)
		test.Eq(t, shape(t, m.Tree()), shape(t, got), test.Sprintf("a host %q changes the machine", name))
	}
}

func pciOf(h *rdma.HCA) string {
	if h.PCI == nil {
		return "-"
	}
	return h.PCI.Address
}
