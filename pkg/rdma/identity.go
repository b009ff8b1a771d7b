package rdma

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Identity is the slot of an HCA, which survives a reboot and a driver reload. Either PCI is set,
// or Kind and Netdev are.
type Identity struct {
	// PCI is the address of the PCI function that carries the HCA.
	PCI string `json:"pci,omitempty"`
	// SF is the user-chosen number of a subfunction (auxiliary device file sfnum).
	SF *int `json:"sf,omitempty"`
	// Kind is the software driver, "rxe" or "siw", or "virtual" if unknown.
	Kind string `json:"kind,omitempty"`
	// Netdev is the interface below a software HCA; its ibdev name if unknown.
	Netdev string `json:"netdev,omitempty"`
	// Discriminator distinguishes several HCAs of one slot: a node GUID, or an
	// ibdev name where the GUIDs are equal or zero.
	Discriminator string `json:"discriminator,omitempty"`
}

// Name returns the DNS label of an identity:
//
//	pci-0000-3b-00-0          a PCI function
//	pci-0000-c1-00-0-sf-88    a subfunction
//	soft-rxe-eth0             soft-RoCE on eth0
//
// Different identities have different names: the PCI part has a fixed form. A free part
// that is no plain short label is hexadecimal after "x--", or a hash after "h--" (SHA-256,
// 80 bits) where hexadecimal would be too long. The name is at most 63 characters long,
// as a DNS label must be (RFC 1123).
func (id Identity) Name() string {
	var name string
	if id.PCI != "" {
		name = "pci-" + strings.NewReplacer(":", "-", ".", "-").Replace(id.PCI)
		if id.SF != nil {
			name = fmt.Sprintf("%s-sf-%d", name, *id.SF)
		}
	} else {
		name = "soft-" + id.Kind + "-" + label(id.Netdev)
	}
	if id.Discriminator != "" {
		name += "-at-" + label(id.Discriminator)
	}
	return name
}

// maxLabel is the maximum length of the free part of a name: 63 less the longest
// "pci-<8>-<2>-<2>-<1>", "-sf-<10>" and "-at-".
const maxLabel = 23

// plainLabel matches a free part that needs no escape. The double hyphen is reserved
// for escapes, and the word "at" between hyphens for the discriminator.
var plainLabel = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func label(s string) string {
	switch {
	case len(s) <= maxLabel && plainLabel.MatchString(s) && !slices.Contains(strings.Split(s, "-"), "at"):
		return s
	case len(s) <= (maxLabel-3)/2:
		return "x--" + hex.EncodeToString([]byte(s))
	}
	sum := sha256.Sum256([]byte(s))
	return "h--" + hex.EncodeToString(sum[:(maxLabel-3)/2])
}

// sortKey orders HCAs: hardware before software, by PF, then PF before SF before VF,
// then by their own address, SF number and name.
type sortKey struct {
	soft, rank, sf int
	family, own    pciAddress
	name           string
}

func (k sortKey) compare(o sortKey) int {
	return cmp.Or(
		cmp.Compare(k.soft, o.soft),
		cmp.Compare(k.family, o.family),
		cmp.Compare(k.rank, o.rank),
		cmp.Compare(k.own, o.own),
		cmp.Compare(k.sf, o.sf),
		cmp.Compare(k.name, o.name),
	)
}

func (h *HCA) sortKey() sortKey {
	k := sortKey{name: h.Name}
	if h.Identity.PCI == "" {
		k.soft = 1
		return k
	}
	// Discover stores only valid addresses.
	k.own, _ = parsePCIAddress(h.Identity.PCI)
	k.family = k.own
	if h.PF != "" {
		k.family, _ = parsePCIAddress(h.PF)
	}
	switch h.Function {
	case SF:
		k.rank = 1
	case VF:
		k.rank = 2
	}
	if h.Identity.SF != nil {
		k.sf = *h.Identity.SF
	}
	return k
}

// Family returns the name of the HCA's card. A PF with its VFs and SFs is one family. A
// software HCA is a family of its own.
func (h *HCA) Family() string {
	switch {
	case h.PF != "":
		return h.PF
	case h.Identity.PCI != "":
		return h.Identity.PCI
	}
	return h.Name
}
