package dra_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nodefeature"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
)

// TestLeafOfHost: the host's file of links becomes the attribute of an HCA, and the feature file of its rail. A
// configuration without a rail for the label takes the feature file away. A directory that is there later gets its file
// with the next decision.
func TestLeafOfHost(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "dgx-h100-ib")
	features := filepath.Join(t.TempDir(), "features.d")
	links := filepath.Join(n.Root, "run", "links.json")
	err := os.MkdirAll(filepath.Dir(links), 0o755)
	if err == nil {
		err = os.WriteFile(links, []byte(`{"apiVersion": "rdma.dev/v1alpha1", "kind": "LinkTable",
			"links": [{"hca": "mlx5_0", "leaf": "leaf-7", "port": "12"}]}`), 0o644)
	}
	must.NoError(t, err)
	const rule = `- name: first
  rail: 0
  selectors: [{cel: {expression: 'device.attributes["rdma.dev"].ibdev == "mlx5_0"'}}]`
	m := newConfigMap(t, "leafFrom: [file]", "leafLabelRail: 0", "rules:", rule)
	start(t, n, m.with(t), func(c *dra.Config) {
		c.NodeFeatureDir, c.LeafFiles.Host = features, "/run/links.json"
	})
	drivertest.Eventually(t, func() error {
		for _, d := range drivertest.PublishedDevices(n) {
			if leaf := d.Attributes["leafSwitch"].StringValue; leaf != nil && *leaf == "leaf-7" {
				return nil
			}
		}
		return fmt.Errorf("no device has the leaf leaf-7")
	})

	feature := func() (string, error) {
		data, err := os.ReadFile(filepath.Join(features, nodefeature.File))
		return string(data), err
	}
	text, err := feature()
	test.Error(t, err, test.Sprintf("there is a feature file in a directory that nobody made: %q", text))
	must.NoError(t, os.Mkdir(features, 0o755))
	m.set(t, "leafFrom: [file]", "leafLabelRail: 0", "publishInterval: 2s", "rules:", rule)
	drivertest.Eventually(t, func() error {
		text, err := feature()
		if err == nil && !strings.Contains(text, "\nrdma.dev/leaf-switch=leaf-7\n") {
			err = fmt.Errorf("the feature file is %q", text)
		}
		return err
	})
	m.set(t, "leafFrom: [file]", "rules:", rule)
	drivertest.Eventually(t, func() error {
		if text, err := feature(); err == nil {
			return fmt.Errorf("the feature file stays: %q", text)
		}
		return nil
	})
}
