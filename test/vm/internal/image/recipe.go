package image

// format changes when the build does something else with the same lists.
const format = 4

const (
	// release is Debian 12: its podman 4.3.1 is the oldest that reads CDI specs
	// and is still in wide use.
	release = "bookworm"
	// kernelPackage is the newest kernel of the release; it depends on the
	// current one.
	kernelPackage = "linux-image-6.12-amd64"
)

// dpkgConfig leaves out what nobody reads here, and does not wait for the disk.
const dpkgConfig = `force-unsafe-io
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
`

// packages are in the root file system, beside the essential ones.
var packages = []string{
	// RDMA: libraries, providers, diagnostics, traffic. Not rdma-core, which wants
	// udev and renames the devices.
	"ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "perftest",
	// Containers, as root and rootless.
	"podman", "conmon", "runc", "crun", "containernetworking-plugins", "iptables",
	"uidmap", "slirp4netns", "fuse-overlayfs",
	// Looking at the system, and the shell of the container image.
	"iproute2", "iputils-ping", "kmod", "procps", "strace", "busybox-static", "ca-certificates",
}

// buildPackages are needed beside it to build a kernel module.
var buildPackages = []string{"gcc-12", "make", "patch", "xz-utils"}

// earlyModuleNames are what the root file system needs.
var earlyModuleNames = []string{"virtio_pci", "virtio_blk", "crc32c_generic", "ext4"}

// kernelModules are in the root file system, with all they depend on.
var kernelModules = []string{
	"virtio_net", "virtio_console", "virtio_rng", "9p", "9pnet_virtio", "overlay", "fuse", "loop",
	// Network devices, for RDMA devices and containers.
	"dummy", "veth", "bridge", "br_netfilter", "macvlan", "ipvlan", "8021q", "bonding", "tun", "e1000e", "sch_netem",
	// RDMA. The crc32 modules are asked for by name when a soft-RoCE device is made.
	"ib_core", "ib_uverbs", "ib_umad", "ib_cm", "iw_cm", "rdma_cm", "rdma_ucm", "rdma_rxe",
	"libcrc32c", "crc32_generic", "crc32_pclmul",
	// Packet filters of container networks.
	"iptable_filter", "iptable_nat", "iptable_mangle", "ip6table_filter", "ip6table_nat",
	"nf_tables", "nft_compat", "nft_chain_nat", "nft_ct", "nft_masq", "nft_nat", "nft_fib_inet",
	"xt_conntrack", "xt_MASQUERADE", "xt_addrtype", "xt_comment", "xt_mark", "xt_multiport",
	"xt_nat", "xt_REDIRECT", "xt_tcpudp",
}

// toolPrograms are the programs of the container image. They come with the libraries
// that they name and all RDMA providers; libgcc_s is loaded when a thread ends.
var toolPrograms = []string{
	"/bin/busybox",
	"/usr/bin/ibv_devices", "/usr/bin/ibv_devinfo",
	"/usr/bin/ibv_rc_pingpong", "/usr/bin/ibv_ud_pingpong",
	"/usr/bin/ib_write_bw", "/usr/bin/ib_send_lat", "/usr/bin/rping",
	"/usr/lib/x86_64-linux-gnu/libgcc_s.so.1",
}
