package lists

import (
	"cmp"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Drains returns what is drained, the longest first. An HCA has a rule for each of its devices.
func Drains(c *model.Cluster) (out []model.Drain) {
	ibdevs := ibdevsOfHCAs(c.Slices)
	for i := range c.Rules {
		d := model.DrainOf(&c.Rules[i])
		if d == nil {
			continue
		}
		d.Rules = []string{c.Rules[i].Name}
		same := slices.IndexFunc(out, func(o model.Drain) bool { return o.Node == d.Node && o.HCA == d.HCA })
		if same < 0 {
			d.IBDev = ibdevs[d.Node+"/"+d.HCA]
			out = append(out, *d)
			continue
		}
		o := &out[same]
		o.Rules = append(o.Rules, d.Rules...)
		if d.Since.Before(&o.Since) {
			o.Since = d.Since
		}
	}
	slices.SortFunc(out, func(a, b model.Drain) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.Node, b.Node), cmp.Compare(a.HCA, b.HCA))
	})
	return out
}

// ibdevsOfHCAs returns the kernel's names of the published HCAs, by NODE/HCA.
func ibdevsOfHCAs(all []resourceapi.ResourceSlice) map[string]string {
	out := map[string]string{}
	for i := range all {
		for j := range all[i].Spec.Devices {
			if d := (&model.Device{Device: &all[i].Spec.Devices[j]}); all[i].Spec.Driver == rdma.Domain {
				out[all[i].Spec.Pool.Name+"/"+model.HCAOf(d.Name)] = d.Text(rdma.AttributeIBDev)
			}
		}
	}
	return out
}

// maxSaid bounds what an annotation says in a table.
const maxSaid = 256

// DrainTable shows drains, with their ages at now.
func DrainTable(drains []model.Drain, now time.Time) *metav1.Table {
	t := Columns("Drained", "Effect", "Age", "By", "Reason", "wide", "Rules")
	for i := range drains {
		d := &drains[i]
		age := "<unknown>"
		if !d.Since.IsZero() {
			age = duration.HumanDuration(now.Sub(d.Since.Time))
		}
		Row(t, d.String(), string(d.Effect), age, text.Bound(d.Author, maxSaid), text.Bound(d.Reason, maxSaid),
			model.Few(d.Rules, 2))
	}
	return t
}
