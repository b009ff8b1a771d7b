package invariants

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// Claims say what the kubelet knows.
type Claims struct {
	// Prepared are claims that were answered with devices and not unprepared since.
	Prepared []*resourceapi.ResourceClaim
	// Open are claims whose state the kubelet does not know, because a call failed or died.
	Open []*resourceapi.ResourceClaim
}

// Always returns what is wrong at any time, also while the driver works or is dead.
func Always(n *drivertest.Worker) error {
	state, err := read(n)
	if err != nil {
		return err
	}
	return errors.Join(state.loadable(n), state.right(), state.exclusive())
}

// AtRest returns what is wrong when no call is in progress and the driver has had the
// time to follow its host.
func AtRest(n *drivertest.Worker, c Claims) error {
	state, err := read(n)
	if err != nil {
		return err
	}
	return errors.Join(state.loadable(n), state.right(), state.exclusive(), state.complete(c))
}

// state is what stands in the files of a node.
type state struct {
	records map[string]record      // by claim UID
	specs   map[string][]string    // by claim UID: the uverbs nodes in it, sorted
	verbs   map[string][]string    // by PCI address: the uverbs nodes that the kernel has
	closed  bool                   // exclusive network namespace mode keeps devices from pods
	strange []error                // files that nobody should have made
	nodes   func(name string) bool // whether a node stands in /dev
}

func read(n *drivertest.Worker) (*state, error) {
	s := &state{nodes: func(name string) bool {
		_, err := os.Stat(n.Node(name))
		return err == nil
	}}
	var errs [3]error
	s.records, errs[0] = s.readRecords(n.RecordDir())
	s.specs, errs[1] = s.readSpecs(n.CDIDir)
	s.verbs, errs[2] = readVerbs(filepath.Join(n.Root, "sys"))
	if mode, err := os.ReadFile(filepath.Join(n.Root, "sys/module/ib_core/parameters/netns_mode")); err == nil {
		s.closed = strings.TrimSpace(string(mode)) == "N"
	}
	return s, errors.Join(errs[:]...)
}

// loadable: a runtime reads the directory without complaint.
func (s *state) loadable(n *drivertest.Worker) error {
	return errors.Join(append(s.strange, drivertest.CheckSpecs(n.CDIDir))...)
}

// exclusive: no HCA is in two claims, unless all of them share or watch it.
func (s *state) exclusive() error {
	var errs []error
	holders := map[string][]string{}
	for uid, r := range s.records {
		for _, d := range r.Claim.Devices {
			if d.AdminAccess {
				continue
			}
			kind := "alone"
			if d.ShareID != "" {
				kind = "share"
			}
			holders[d.hca()] = append(holders[d.hca()], kind+" "+uid)
		}
	}
	for hca, of := range holders {
		slices.Sort(of) // those that want it alone come first
		if of = slices.Compact(of); len(of) > 1 && strings.HasPrefix(of[0], "alone") {
			errs = append(errs, fmt.Errorf("HCA %s is in the records of %v", hca, of))
		}
	}
	return errors.Join(errs...)
}

// right: a spec leads to the HCAs of its claim as they are now, or to fewer while the
// driver follows a change, but never to another one.
func (s *state) right() error {
	var errs []error
	for uid, nodes := range s.specs {
		r, ok := s.records[uid]
		if !ok {
			continue // complete() finds it
		}
		for _, node := range nodes {
			if owner := s.owner(node); owner != "" && !r.holds(owner) {
				errs = append(errs, fmt.Errorf("the spec of claim %s has %s, which is HCA %s, and the claim holds %v", uid, node, owner, r.devices()))
			}
		}
	}
	return errors.Join(errs...)
}

// owner is the PCI address that the kernel has a uverbs node for, "" if none.
func (s *state) owner(node string) string {
	for address, nodes := range s.verbs {
		if slices.Contains(nodes, node) {
			return address
		}
	}
	return ""
}

// complete: records and specs are just those of the claims.
func (s *state) complete(c Claims) error {
	var errs []error
	known := map[string]bool{}
	for _, claim := range c.Prepared {
		known[string(claim.UID)] = true
		if _, ok := s.records[string(claim.UID)]; !ok {
			errs = append(errs, fmt.Errorf("claim %s was prepared, and has no record", claim.Name))
		}
	}
	for _, claim := range c.Open {
		known[string(claim.UID)] = true
	}
	for uid, r := range s.records {
		if !known[uid] {
			errs = append(errs, fmt.Errorf("record %s is of no claim that the kubelet asked for and did not end", uid))
		}
		errs = append(errs, s.fits(uid, r))
	}
	for uid := range s.specs {
		if _, ok := s.records[uid]; !ok {
			errs = append(errs, fmt.Errorf("spec of claim %s has no record", uid))
		}
	}
	return errors.Join(errs...)
}

// fits: a record has a spec with the nodes of all its HCAs, or none while one of them
// is away.
func (s *state) fits(uid string, r record) error {
	nodes, hasSpec := s.specs[uid]
	var want []string
	away := s.closed
	for _, d := range r.Claim.Devices {
		if !d.onPCI() {
			return nil // a name that sysfs alone does not explain
		}
		verbs := s.verbs[d.address()]
		away = away || len(verbs) == 0 || slices.ContainsFunc(verbs, func(v string) bool { return !s.nodes(v) })
		want = append(want, verbs...)
	}
	slices.Sort(want)
	want = slices.Compact(want)
	switch {
	case away && hasSpec:
		return fmt.Errorf("the spec of claim %s is there with %v, and not all of its HCAs %v are", uid, nodes, r.devices())
	case away:
		return nil
	case !hasSpec:
		return fmt.Errorf("claim %s has a record and no spec", uid)
	case !slices.Equal(nodes, want):
		return fmt.Errorf("the spec of claim %s has nodes %v, and its HCAs %v have %v", uid, nodes, r.devices(), want)
	}
	return nil
}
