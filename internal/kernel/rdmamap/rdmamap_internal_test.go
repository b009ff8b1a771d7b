package rdmamap

import (
	"errors"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/shoenig/test"
)

// TestConfirm: rdmamap is asked once about what an HCA is called, and again when it is
// called otherwise; a refusal is not kept, and holds for as long as rdmamap says so.
func TestConfirm(t *testing.T) {
	on, asked := []string{"mlx5_0"}, 0
	s := &Confirmer{Ask: func(function string) ([]string, error) {
		if asked++; function != "0000:3b:00.0" {
			return nil, errors.New("no such function")
		}
		return on, nil
	}}
	hca := rdma.HCA{Name: "pci-0000-3b-00-0", IBDev: "mlx5_0", NodeGUID: 1, Identity: rdma.Identity{PCI: "0000:3b:00.0"}, Uverbs: &rdma.Node{Name: "uverbs0", Minor: 192}}
	check := func(when string, wantMoved bool, wantAsked int) {
		t.Helper()
		asked = 0
		err := s.Confirm(&hca)
		test.True(t, errors.Is(err, rdma.ErrChanged) == wantMoved && asked == wantAsked,
			test.Sprintf("%s: asked %d times, error %v; want %d, moved %v", when, asked, err, wantAsked, wantMoved))
	}
	check("at first", false, 1)
	check("again", false, 0)
	for name, change := range map[string]func(){
		"other uverbs": func() { hca.Uverbs = &rdma.Node{Name: "uverbs1", Minor: 193} },
		"no uverbs":    func() { hca.Uverbs = nil },
		"other GUID":   func() { hca.NodeGUID = 2 },
	} {
		change()
		check(name, false, 1)
		check(name+", again", false, 0)
	}
	hca.IBDev = "mlx5_1"
	check("another card's name", true, 1)
	check("another card's name, again", true, 1)
	on = []string{"mlx5_1"}
	check("renamed", false, 1)
	on = []string{"mlx5_0"}
	hca.IBDev = "mlx5_0"
	check("renamed back", false, 1)
	hca.Identity.SF = new(88)
	check("a subfunction, of which rdmamap says nothing", false, 0)
}
