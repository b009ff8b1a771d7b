package cluster

import (
	"fmt"
	"slices"
	"strings"
)

// releases are what Options.Kubernetes can name, beside the newest: those with a
// wrapper module build/kubernetes-<release>.
var releases = []string{"1.34", "1.35", "1.36"}

// WithPodGroupClaims returns the options of a cluster that has claims of PodGroups (KEP-5729).
func WithPodGroupClaims(o Options) Options {
	o.FeatureGates = map[string]bool{"GenericWorkload": true, "DRAWorkloadResourceClaims": true}
	o.RuntimeConfig = "scheduling.k8s.io/v1beta1=true"
	return o
}

// Validate says what is wrong with the version.
func (o Options) Validate() error {
	if o.Kubernetes != "" && !slices.Contains(releases, o.Kubernetes) {
		return fmt.Errorf("choose Kubernetes %q: there is %s, and the newest when none is named",
			o.Kubernetes, strings.Join(releases, ", "))
	}
	return nil
}
