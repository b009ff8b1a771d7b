package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// olderGates are the feature gates of dynamic resource allocation that Kubernetes
// 1.37 has on by default and still lets one turn off, and 1.34 and 1.35 have off or do
// not know (pkg/features/kube_features.go of k8s.io/kubernetes). DRAExtendedResource is
// locked since 1.37: what is without it, 1.34 itself shows.
var olderGates = map[string]bool{
	"DRAConsumableCapacity":                       false,
	"DRADeviceBindingConditions":                  false,
	"DRADeviceTaintRules":                         false,
	"DRADeviceTaints":                             false,
	"DRAFractionalCapacityRange":                  false,
	"DRAPartitionableDevices":                     false,
	"DRAResourceClaimGranularStatusAuthorization": false,
	"ResourceHealthStatus":                        false,
	"ResourceHealthStatusMessage":                 false,
}

// profiles are what Options.Profile can name.
var profiles = map[string]map[string]bool{"1.34": olderGates, "1.35": olderGates}

// releases are what Options.Kubernetes can name, beside the newest: those with a
// wrapper module build/kubernetes-<release>.
var releases = []string{"1.34", "1.35", "1.36"}

// WithPodGroupClaims returns the options of a cluster that has claims of PodGroups (KEP-5729).
func WithPodGroupClaims(o Options) Options {
	o.FeatureGates = map[string]bool{"GenericWorkload": true, "DRAWorkloadResourceClaims": true}
	o.RuntimeConfig = "scheduling.k8s.io/v1beta1=true"
	return o
}

// Validate says what is wrong with the version and the profile.
func (o Options) Validate() error {
	switch {
	case o.Kubernetes != "" && !slices.Contains(releases, o.Kubernetes):
		return fmt.Errorf("choose Kubernetes %q: there is %s, and the newest when none is named", o.Kubernetes, strings.Join(releases, ", "))
	case o.Profile != "" && profiles[o.Profile] == nil:
		return fmt.Errorf("choose profile %q: there is %s", o.Profile, strings.Join(slices.Sorted(maps.Keys(profiles)), ", "))
	case o.Profile != "" && o.Kubernetes != "":
		return fmt.Errorf("choose profile %q: a profile is for the newest Kubernetes, and %s has defaults of its own", o.Profile, o.Kubernetes)
	}
	return nil
}

// withProfile adds the profile's gates to those that the caller has set.
func (o Options) withProfile() Options {
	if o.Profile == "" {
		return o
	}
	gates := maps.Clone(profiles[o.Profile])
	maps.Copy(gates, o.FeatureGates)
	o.FeatureGates = gates
	return o
}
