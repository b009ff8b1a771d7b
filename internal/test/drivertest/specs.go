package drivertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// Devices returns the device IDs of a claim from an answer, or its error.
func Devices(response *drapb.NodePrepareResourcesResponse, c *resourceapi.ResourceClaim) ([]string, error) {
	claim, ok := response.GetClaims()[string(c.UID)]
	if !ok {
		return nil, fmt.Errorf("the answer has no claim %s", c.Name)
	}
	if claim.Error != "" {
		return nil, errors.New(claim.Error)
	}
	var ids []string
	for _, d := range claim.Devices {
		ids = append(ids, d.CdiDeviceIds...)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("the answer has no devices for claim %s", c.Name)
	}
	return ids, nil
}

// SpecPath is where the CDI spec of a claim stands.
func SpecPath(dir string, c *resourceapi.ResourceClaim) string {
	return filepath.Join(dir, driverName+"-claim_"+string(c.UID)+".json")
}

// Spec reads the CDI spec of a claim.
func Spec(t testing.TB, dir string, c *resourceapi.ResourceClaim) *specs.Spec {
	t.Helper()
	data, err := os.ReadFile(SpecPath(dir, c))
	must.NoError(t, err)
	spec := &specs.Spec{}
	must.NoError(t, json.Unmarshal(data, spec), must.Sprint(SpecPath(dir, c)))
	return spec
}

// Nodes lists the paths of the device nodes of a spec.
func Nodes(spec *specs.Spec) []string {
	var paths []string
	for _, e := range cdi.Edits(spec) {
		for _, n := range e.DeviceNodes {
			paths = append(paths, n.Path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// CheckSpecs loads a CDI directory as a container runtime does: every file in it
// must be a valid spec, without two devices of one name. It returns an error if
// one of the devices is missing.
func CheckSpecs(dir string, devices ...string) error {
	cache, err := cdiapi.NewCache(cdiapi.WithSpecDirs(dir), cdiapi.WithAutoRefresh(false))
	if err != nil {
		return err
	}
	for path, errs := range cache.GetErrors() {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue // removed since it was listed
		}
		return fmt.Errorf("CDI cannot load %s: %w", path, errors.Join(errs...))
	}
	for _, d := range devices {
		if cache.GetDevice(d) == nil {
			return fmt.Errorf("CDI does not find device %s among %v", d, cache.ListDevices())
		}
	}
	return nil
}

// Files lists the names in a directory, sorted.
func Files(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Temporary reports whether a name is that of a file in the making, which no CDI
// runtime reads.
func Temporary(name string) bool { return strings.HasSuffix(name, ".tmp") }
