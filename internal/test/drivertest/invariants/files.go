package invariants

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// record is what is looked at in the record of a claim.
type record struct {
	BootID string `json:"bootID"`
	Claim  struct {
		UID     string   `json:"uid"`
		Devices []device `json:"devices"`
	} `json:"claim"`
}

type device struct {
	Device      string `json:"device"`
	ShareID     string `json:"shareID"`
	AdminAccess bool   `json:"adminAccess"`
}

// hca is the name of the HCA behind a device name.
func (d device) hca() string { return strings.TrimPrefix(d.Device, "shared-") }

var pciName = regexp.MustCompile(`^pci-([0-9a-f]{4,})-([0-9a-f]{2})-([0-9a-f]{2})-([0-7])$`)

// onPCI reports whether the HCA is named after a PCI function alone.
func (d device) onPCI() bool { return pciName.MatchString(d.hca()) }

// address is the PCI address in the name of the HCA.
func (d device) address() string { return pciName.ReplaceAllString(d.hca(), "$1:$2:$3.$4") }

func (r record) holds(address string) bool {
	return slices.ContainsFunc(r.Claim.Devices, func(d device) bool { return !d.onPCI() || d.address() == address })
}

func (r record) devices() []string {
	var out []string
	for _, d := range r.Claim.Devices {
		out = append(out, d.Device)
	}
	return out
}

// readRecords reads the records of this boot by claim UID. Those of another boot count
// for nothing.
func (s *state) readRecords(dir string) (map[string]record, error) {
	out := map[string]record{}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, err
	}
	names, err := s.list(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		uid, ok := strings.CutSuffix(name, ".json")
		if !ok {
			s.strange = append(s.strange, fmt.Errorf("%s is no record", filepath.Join(dir, name)))
			continue
		}
		var r record
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // ended since it was listed
		}
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if err == nil && r.Claim.UID != uid {
			err = fmt.Errorf("it is of claim %q", r.Claim.UID)
		}
		if err != nil {
			s.strange = append(s.strange, fmt.Errorf("record %s: %w", filepath.Join(dir, name), err))
			continue
		}
		if r.BootID == strings.TrimSpace(string(boot)) {
			out[uid] = r
		}
	}
	return out, nil
}

// readSpecs reads the specs of claims by UID.
func (s *state) readSpecs(dir string) (map[string][]string, error) {
	out := map[string][]string{}
	names, err := s.list(dir)
	for _, name := range names {
		uid, ok := strings.CutPrefix(strings.TrimSuffix(name, ".json"), "rdma.dev-claim_")
		if !ok || !strings.HasSuffix(name, ".json") {
			s.strange = append(s.strange, fmt.Errorf("%s is no spec of a claim", filepath.Join(dir, name)))
			continue
		}
		var spec specs.Spec
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, &spec)
		}
		if err != nil {
			s.strange = append(s.strange, fmt.Errorf("spec %s: %w", filepath.Join(dir, name), err))
			continue
		}
		out[uid] = uverbs(&spec)
	}
	return out, err
}

// list lists a directory without files in the making, which no runtime reads. A
// missing one is empty: the driver has not come so far.
func (s *state) list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if !drivertest.Temporary(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func uverbs(spec *specs.Spec) []string {
	var out []string
	for _, node := range drivertest.Nodes(spec) {
		if name := path.Base(node); strings.HasPrefix(name, "uverbs") {
			out = append(out, name)
		}
	}
	return out
}

// readVerbs asks sysfs which uverbs nodes sit on which PCI function.
func readVerbs(sys string) (map[string][]string, error) {
	links, err := filepath.Glob(filepath.Join(sys, "class/infiniband_verbs/uverbs*"))
	out := map[string][]string{}
	for _, link := range links {
		real, err := filepath.EvalSymlinks(link)
		if err != nil {
			return nil, fmt.Errorf("follow %s: %w", link, err)
		}
		// .../0000:3b:00.0/infiniband_verbs/uverbs0
		function := path.Base(path.Dir(path.Dir(real)))
		out[function] = append(out[function], path.Base(real))
		slices.Sort(out[function])
	}
	return out, err
}
