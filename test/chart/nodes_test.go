package chart

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const nfdValues = "../../examples/nfd/values.yaml"

// nfdLabel is the label that Node Feature Discovery makes of a PCI function with the configuration that is a comment of
// examples/nfd/values.yaml, "" for none: by docs/reference/worker-configuration-reference.md and source/pci/pci.go of
// kubernetes-sigs/node-feature-discovery at 76e6cc8cc0d5.
func nfdLabel(t *testing.T, class, vendor string) string {
	t.Helper()
	var config struct {
		Sources struct {
			PCI struct{ DeviceClassWhitelist, DeviceLabelFields []string }
		}
	}
	text := ""
	for _, line := range regexp.MustCompile(`(?m)^#   (.*)$`).FindAllStringSubmatch(readFile(t, nfdValues), -1) {
		text += line[1] + "\n"
	}
	must.NoError(t, yaml.UnmarshalStrict([]byte(text), &config))
	must.Eq(t, []string{"vendor"}, config.Sources.PCI.DeviceLabelFields)
	for _, listed := range config.Sources.PCI.DeviceClassWhitelist {
		if strings.HasPrefix(class, listed) {
			return "feature.node.kubernetes.io/pci-" + vendor + ".present"
		}
	}
	return ""
}

// TestNodesOfNFD: the affinity of examples/nfd/values.yaml lets the driver run on each modelled machine with HCAs on
// PCI, and on no node without such a label. Without these values, the driver needs no label.
func TestNodesOfNFD(t *testing.T) {
	ofChart := daemonSet(t).Spec.Template.Spec
	ofExample := daemonSet(t, "--values", nfdValues).Spec.Template.Spec
	must.Eq(t, ofChart.NodeSelector, ofExample.NodeSelector)
	runs := func(pod corev1.PodSpec, labels map[string]string) bool {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
		matches, err := nodeaffinity.NewRequiredNodeAffinity(nil, pod.Affinity).Match(node)
		must.NoError(t, err)
		return matches
	}
	test.True(t, runs(ofChart, nil), test.Sprint("by default, the driver needs a label"))
	test.False(t, runs(ofExample, nil), test.Sprint("the driver runs on a node without a label"))
	machines := 0
	for _, name := range fixture.Names() {
		machine, err := fixture.Load(name)
		must.NoError(t, err)
		for _, h := range rdmatest.Snapshot(t, name).Usable() {
			class, err := fs.ReadFile(machine.FS(t), "class/infiniband/"+h.IBDev+"/device/class")
			if err != nil || h.Function == rdma.Virtual {
				continue // an SF, whose card has an HCA of its own, or soft-RoCE over any card
			}
			machines++
			label := nfdLabel(t, strings.TrimPrefix(string(class), "0x"), h.PCI.Vendor)
			test.True(t, runs(ofExample, map[string]string{label: "true"}), test.Sprintf("%s: label %q", name, label))
			break
		}
	}
	test.GreaterEq(t, 20, machines)
}
