package dra

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/podmeta"
)

// writeMetadata writes what the containers of a claim can read about its devices.
func (d *Driver) writeMetadata(p *plan.Plan) error {
	files, err := podmeta.Files(p, d.host.snapshot())
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := d.claims.WriteMetadata(p.UID, f.Name, f.Data); err != nil {
			return fmt.Errorf("claim %s: %w", p.Claim(), err)
		}
	}
	return nil
}
