package rdmacore

import "strings"

// Providers maps the kernel drivers of HCAs to the providers of rdma-core. A key is the driver of the PCI function or
// auxiliary device (/sys/.../driver), the driver of the ibdev, or a software driver. Source: the match tables in
// rdma-core's providers/*, and the kernel's drivers/infiniband/hw.
var Providers = map[string]string{
	"bnxt_en": "bnxt_re", "bnxt_re": "bnxt_re",
	"cxgb4": "cxgb4", "iw_cxgb4": "cxgb4",
	"efa":   "efa",
	"erdma": "erdma",
	"hfi1":  "hfi1verbs",
	"hns3":  "hns", "hns_roce": "hns", "hns_roce_hw_v2": "hns",
	"ib_qib": "ipathverbs", "qib": "ipathverbs",
	"ionic": "ionic", "ionic_rdma": "ionic",
	"ice": "irdma", "i40e": "irdma", "idpf": "irdma", "irdma": "irdma",
	"mana": "mana", "mana_ib": "mana",
	"mlx4_core": "mlx4", "mlx4_ib": "mlx4",
	"mlx5_core": "mlx5", "mlx5_ib": "mlx5",
	"ib_mthca": "mthca",
	"be2net":   "ocrdma", "ocrdma": "ocrdma",
	"qede": "qedr", "qed": "qedr", "qedr": "qedr",
	"rdma_rxe": "rxe", "rxe": "rxe",
	"siw":        "siw",
	"vmw_pvrdma": "vmw_pvrdma",
}

// ProviderOf returns the provider of a kernel driver. The name of an auxiliary driver begins with its module:
// mlx5_core.sf. For an unknown driver it returns the driver's own name, because a new driver may come with a provider
// of the same name.
func ProviderOf(driver string) (provider string, known bool) {
	module, _, _ := strings.Cut(driver, ".")
	if p, ok := Providers[module]; ok {
		return p, true
	}
	return module, false
}
