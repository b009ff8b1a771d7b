package usable

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/rdmaimage"
)

// TestPackages checks images of Debian's packages. Nothing is found in them as they are, and each driver is found
// without its provider.
func TestPackages(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors have other providers")
	}
	for _, name := range []string{"bookworm", "trixie"} {
		dir := t.TempDir()
		rdmaimage.CopyPackages(t, name, dir)
		c := containerOf(t, dir)
		for driver, provider := range map[string]string{
			"mlx5_core": "mlx5", "mlx5_core.sf": "mlx5", "mlx4_core": "mlx4", "bnxt_en": "bnxt_re", "ice": "irdma", "efa": "efa",
			"rxe": "rxe", "siw": "siw", "hfi1": "hfi1verbs", "qede": "qedr", "hns3": "hns", "mana": "mana", "erdma": "erdma",
			"cxgb4": "cxgb4", "ib_qib": "ipathverbs", "vmw_pvrdma": "vmw_pvrdma", "be2net": "ocrdma", "ib_mthca": "mthca",
		} {
			hcas := mlx5
			hcas = append(hcas[:0:0], hcas...)
			hcas[0].Driver = driver
			check := func() finding.Finding {
				l := &libraries{root: c.Root, env: c.Process.environment(), results: map[string]finding.Finding{}}
				c.Root.opens = maxOpens
				return l.check(hcas[0])
			}
			if got := check(); got.Severity != finding.OK {
				t.Errorf("%s: %v", name, got)
			}
			files, err := filepath.Glob(filepath.Join(dir, "usr/lib/x86_64-linux-gnu/libibverbs/lib"+provider+"-rdmav*.so"))
			if err != nil || len(files) != 1 {
				t.Fatalf("%s: %s has files %v", name, provider, files)
			}
			must.NoError(t, os.Rename(files[0], files[0]+".away"))
			if got := check(); !got.Severity.Bad() || !strings.Contains(got.Message, provider) {
				t.Errorf("%s without %s: %v", name, provider, got)
			}
			must.NoError(t, os.Rename(files[0]+".away", files[0]))
		}
	}
}
