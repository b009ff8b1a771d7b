package rdma

import (
	"fmt"
	"regexp"

	"testing"

	"github.com/shoenig/test"
)

func TestIdentityName(t *testing.T) {
	sf := func(n int) *int { return &n }
	for _, c := range []struct {
		id   Identity
		want string
	}{
		{Identity{PCI: "0000:3b:00.0"}, "pci-0000-3b-00-0"},
		{Identity{PCI: "10000:01:00.0"}, "pci-10000-01-00-0"},
		{Identity{PCI: "0000:c1:00.0", SF: sf(88)}, "pci-0000-c1-00-0-sf-88"},
		{Identity{PCI: "0000:c1:00.0", SF: sf(0)}, "pci-0000-c1-00-0-sf-0"},
		{Identity{PCI: "0000:08:00.1", Discriminator: "smi1"}, "pci-0000-08-00-1-at-smi1"},
		{Identity{PCI: "0000:08:00.1", Discriminator: "mlx5_1"}, "pci-0000-08-00-1-at-x--6d6c78355f31"},
		{Identity{Kind: "rxe", Netdev: "eth0"}, "soft-rxe-eth0"},
		{Identity{Kind: "siw", Netdev: "br-lan"}, "soft-siw-br-lan"},
		{Identity{Kind: "rxe", Netdev: "eth0.100"}, "soft-rxe-x--657468302e313030"},
		{Identity{Kind: "rxe", Netdev: "Eth0"}, "soft-rxe-x--45746830"},
		{Identity{Kind: "rxe", Netdev: "a--b"}, "soft-rxe-x--612d2d62"},
		{Identity{Kind: "rxe", Netdev: "a-at-b"}, "soft-rxe-x--612d61742d62"},
		{Identity{Kind: "rxe", Netdev: "enp0s31f6.VLAN"}, "soft-rxe-h--65b774abdaa72d64af5e"},
	} {
		got := c.id.Name()
		test.Eq(t, c.want, got, test.Sprintf("%+v is called", c.id))
		test.True(t, dnsLabel.MatchString(got), test.Sprintf("%q is no DNS label", got))
	}
}

// dnsLabel is a label by RFC 1123, section 2.1, and RFC 1035, section 2.3.4.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// FuzzIdentityName: every identity has a DNS label, and two have two.
func FuzzIdentityName(f *testing.F) {
	f.Add("0000:3b:00.0", -1, "", "", "", "0000:3b:00.0", 0, "", "", "")
	f.Add("0000:c1:00.0", 88, "", "", "", "0000:c1:00.0", 8, "", "", "8")
	f.Add("", -1, "rxe", "eth0", "", "", -1, "siw", "eth0", "")
	f.Add("", -1, "rxe", "eth0-at-y", "", "", -1, "rxe", "eth0", "y")
	f.Add("", -1, "rxe", "at", "x--6174", "", -1, "rxe", "x--6174", "at")
	f.Add("ffffffff:ff:1f.7", 4294967295, "", "", "abcdefghijklmnopqrstuvw", "", -1, "virtual", "abcdefghijklmnopqrstuvw",
		"abcdefghijklmnopqrstuvw")
	f.Add("", -1, "virtual", "abcdefghijklmnopqrstuvwx", "mlx5_0", "", -1, "virtual", "", "ümlaut")
	f.Fuzz(func(t *testing.T, pci1 string, sf1 int, kind1, netdev1, disc1, pci2 string, sf2 int, kind2,
		netdev2, disc2 string) {
		a, ok1 := identity(pci1, sf1, kind1, netdev1, disc1)
		b, ok2 := identity(pci2, sf2, kind2, netdev2, disc2)
		if !ok1 || !ok2 {
			return
		}
		test.True(t, dnsLabel.MatchString(a.Name()),
			test.Sprintf("%+v is called %q, which is no DNS label", a, a.Name()))
		test.Eq(t, (a.key() == b.key()), (a.Name() == b.Name()),
			test.Sprintf("%+v is called %q, and %+v %q", a, a.Name(), b, b.Name()))
	})
}

// identity makes an identity as Discover does; ok is false if it makes none such.
func identity(pci string, sf int, kind, netdev, disc string) (id Identity, ok bool) {
	id.Discriminator = disc
	if pci == "" {
		id.Kind, id.Netdev = kind, netdev
		known := kind == "rxe" || kind == "siw" || kind == "virtual"
		return id, known && netdev != ""
	}
	address, ok := parsePCIAddress(pci)
	if id.PCI = address.String(); sf >= 0 {
		id.SF = &sf
	}
	return id, ok && sf <= 1<<32-1 // sfnum is a u32
}

func (id Identity) key() string {
	sf := -1
	if id.SF != nil {
		sf = *id.SF
	}
	return fmt.Sprintf("%q %d %q %q %q", id.PCI, sf, id.Kind, id.Netdev, id.Discriminator)
}
