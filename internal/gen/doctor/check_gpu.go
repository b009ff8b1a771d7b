package doctor

import (
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// PCI vendors of GPUs.
const (
	vendorNVIDIA = "10de"
	vendorAMD    = "1002"
)

// checkGPUs checks whether an HCA can read and write the memory of a GPU. AMD's driver exports dma-buf by itself, and
// EFA has its own peer memory. NVIDIA GPUs need nvidia_peermem or the open kernel module, which exports dma-buf.
func checkGPUs(f *facts, out *findings) {
	var nvidia, amd []string
	for _, p := range f.host.pciFunctions() {
		if !strings.HasPrefix(p.class, classDisplay) && !strings.HasPrefix(p.class, classAccel) {
			continue
		}
		switch p.vendor {
		case vendorNVIDIA:
			nvidia = append(nvidia, p.address)
		case vendorAMD:
			amd = append(amd, p.address)
		}
	}
	if len(f.snap.Usable()) == 0 {
		return
	}
	if len(nvidia) > 0 && f.host.sysHas("module/nvidia") {
		out.add(nvidiaPeer(f.host, nvidia))
	}
	if len(amd) > 0 && f.host.sysHas("module/amdgpu") {
		out.add(found("gpu-peer-ok", OK, text.Count(len(amd), "AMD GPU")+" with peer memory (dma-buf of amdgpu)"))
	}
}

func nvidiaPeer(host *reader, gpus []string) Finding {
	title := text.Count(len(gpus), "NVIDIA GPU")
	driver, _ := host.optional("/proc/driver/nvidia/version")
	switch {
	case host.sysHas("module/nvidia_peermem"):
		return found("gpu-peer-ok", OK, title+" with peer memory (nvidia_peermem)")
	case host.sysHas("kernel/mm/memory_peers/nv_mem"), host.sysHas("kernel/mm/memory_peers/nv_mem_nc"):
		return found("gpu-peer-ok", OK, title+" with peer memory (nv_peer_mem)")
	case strings.Contains(driver, "Open Kernel Module"):
		return found("gpu-peer-ok", OK, title+" with peer memory (dma-buf of the open kernel module)")
	}
	return found("gpu-peer-missing", Warning, title+" without peer memory").
		about(gpus...).
		because("nvidia_peermem is not loaded, and the driver is not the open kernel module, which exports dma-buf. " +
			"HCAs copy through host memory, at a fraction of the rate").
		fix(load("nvidia_peermem")...)
}
