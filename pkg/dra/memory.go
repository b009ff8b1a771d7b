package dra

import (
	"errors"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// What a driver leaves to the next one of the same boot (docs/adr/0013): the HCAs as
// they last were, for those that are away when it starts while claims hold them; and
// their taints, so that a restart does not forget that a link flaps.
const (
	memoryHCAs   = "hcas"
	memoryTaints = "taints"
)

// recall takes over what the driver before has left.
func (d *Driver) recall() error {
	var hcas []rdma.HCA
	_, errHCAs := d.claims.Recall(memoryHCAs, &hcas)
	if errHCAs == nil {
		d.host.learn(hcas)
	}
	var taints map[string][]resourceapi.DeviceTaint
	_, errTaints := d.claims.Recall(memoryTaints, &taints)
	if errTaints == nil {
		d.health.model.Resume(taints)
		d.remembered = taints
	}
	return errors.Join(errHCAs, errTaints)
}

// remember leaves the HCAs to the next driver: those that are there, and others that
// claims hold.
func (d *Driver) remember(held []string) error {
	if !d.host.unsaved.Swap(false) {
		return nil
	}
	if err := d.claims.Remember(memoryHCAs, d.host.worthKnowing(held)); err != nil {
		d.host.unsaved.Store(true)
		return err
	}
	return nil
}

// rememberTaints leaves the taints of HCAs to the next driver.
func (d *Driver) rememberTaints(taints map[string][]resourceapi.DeviceTaint) error {
	if maps.EqualFunc(taints, d.remembered, func(a, b []resourceapi.DeviceTaint) bool { return slices.Equal(keys(a), keys(b)) }) {
		return nil
	}
	if err := d.claims.Remember(memoryTaints, taints); err != nil {
		return err
	}
	d.remembered = taints
	return nil
}

func keys(taints []resourceapi.DeviceTaint) []string {
	var out []string
	for _, t := range taints {
		out = append(out, t.Key)
	}
	return out
}
