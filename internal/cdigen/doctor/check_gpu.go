package doctor

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// The kinds of findings, with their looks.
var (
	gpuPeerMissing = catalogue.Kind("gpu-peer-missing", "/sys/module", "peer memory of *")
	gpuPeerOK      = catalogue.Kind("gpu-peer-ok", "/sys/module", "peer memory of *")
)

// PCI vendors of GPUs.
const (
	vendorNVIDIA = "10de"
	vendorAMD    = "1002"
)

// classVGA is the class of cards with a display: GeForce and Radeon, which may lack GPUDirect RDMA, GB10, which has none,
// and workstation cards, which have it (https://docs.nvidia.com/cuda/gpudirect-rdma, "Tesla and Quadro"; GB10: NVIDIA's
// FAQ of DGX Spark). Cards of data centers are 3D controllers (0302) or accelerators.
const classVGA = "0300"

// checkGPUs checks whether an HCA can read and write the memory of a GPU. EFA has its own peer memory. AMD GPUs need
// dma-buf. NVIDIA GPUs need nvidia_peermem, or dma-buf of the open kernel module.
func checkGPUs(f *facts, out *findings) {
	var nvidia, amd, displays []string
	if len(f.snap.Usable()) == 0 {
		return
	}
	for _, p := range f.pci {
		loaded := p.vendor == vendorNVIDIA && f.host.sysHas("module/nvidia") ||
			p.vendor == vendorAMD && f.host.sysHas("module/amdgpu")
		switch {
		case !loaded || !strings.HasPrefix(p.class, classDisplay) && !strings.HasPrefix(p.class, classAccel):
		case strings.HasPrefix(p.class, classVGA):
			displays = append(displays, p.address)
		case p.vendor == vendorNVIDIA:
			nvidia = append(nvidia, p.address)
		default:
			amd = append(amd, p.address)
		}
	}
	if len(displays) > 0 {
		f.host.unseen["peer memory of "+text.Some(displays, ", ")] = errors.New("some cards with a display have none, as " +
			"GeForce and GB10: compare ib_write_bw with and without --use_cuda=0")
	}
	if len(nvidia) > 0 {
		out.add(nvidiaPeer(f.host, nvidia))
	}
	if len(amd) > 0 {
		out.add(dmaBufPeer(f.host, amd, text.Count(len(amd), "AMD GPU"), "amdgpu", "scripts/config --enable PCI_P2PDMA && make"))
	}
}

func nvidiaPeer(host *reader, gpus []string) finding.Finding {
	title := text.Count(len(gpus), "NVIDIA GPU")
	driver, _ := host.optional("/proc/driver/nvidia/version")
	switch {
	case host.sysHas("module/nvidia_peermem"):
		return gpuPeerOK.Found(finding.OK, title+" with peer memory (nvidia_peermem)")
	case host.sysHas("kernel/mm/memory_peers/nv_mem"), host.sysHas("kernel/mm/memory_peers/nv_mem_nc"):
		return gpuPeerOK.Found(finding.OK, title+" with peer memory (nv_peer_mem)")
	case strings.Contains(driver, "Open Kernel Module"):
		return dmaBufPeer(host, gpus, title, "the open kernel module", load("nvidia_peermem")...)
	}
	return noPeer(gpus, title, "nvidia_peermem is not loaded, and the driver is not the open kernel module, which exports "+
		"dma-buf").Do(load("nvidia_peermem")...)
}

func noPeer(gpus []string, title, reason string) finding.Finding {
	return gpuPeerMissing.Found(finding.Warning, title+" without peer memory").About(gpus...).
		Because("%s. HCAs copy through host memory, at a fraction of the rate", reason)
}

// dmaBufPeer checks GPUs whose driver exports dma-buf. An HCA gets host memory by it in a kernel without
// CONFIG_PCI_P2PDMA: pci_p2pdma_distance of include/linux/pci-p2pdma.h returns -1 then.
func dmaBufPeer(host *reader, gpus []string, title, driver string, fix ...string) finding.Finding {
	has, err := hasP2PDMA(host.Root, host.kernelRelease())
	switch {
	case err != nil:
		host.unseen["peer memory of "+title] = err
		return finding.Finding{}
	case !has:
		return noPeer(gpus, title, "the running kernel is built without CONFIG_PCI_P2PDMA, which dma-buf of "+driver+
			" needs").Do(fix...)
	}
	return gpuPeerOK.Found(finding.OK, title+" with peer memory (dma-buf of "+driver+")")
}

// hasP2PDMA reports whether a kernel was built with CONFIG_PCI_P2PDMA. Linux has dma-buf for HCAs since 5.12.
func hasP2PDMA(root fs.ReadLinkFS, release string) (bool, error) {
	var major, minor int
	switch n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); {
	case n != 2 || strings.Contains(release, "/"):
		return false, errors.New("the running kernel is unknown")
	case major < 5 || major == 5 && minor < 12:
		return false, fmt.Errorf("kernel %s is older than 5.12, and few distributions add dma-buf for HCAs to it", release)
	}
	for _, name := range []string{"/boot/config-" + release, "/lib/modules/" + release + "/config", "/proc/config.gz"} {
		data, err := hostfs.ReadFile(root, name, maxFile)
		if err == nil && strings.HasSuffix(name, ".gz") {
			data, err = gunzip(data)
		}
		if err == nil {
			return slices.Contains(strings.Split(string(data), "\n"), "CONFIG_PCI_P2PDMA=y"), nil
		}
	}
	return false, fmt.Errorf("no file says whether kernel %s has CONFIG_PCI_P2PDMA", release)
}

func gunzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, maxFile))
}
