// The virtual machine with a real RDMA kernel, and the tests that run inside it, are a
// module of their own so that the driver's module does not require what they use.
module github.com/rdma-dev/dra-driver-rdma/test/vm

go 1.26.0

require (
	github.com/google/go-containerregistry v0.22.1
	github.com/klauspost/compress v1.19.2
	github.com/rdma-dev/dra-driver-rdma v0.0.0-00010101000000-000000000000
	github.com/rdma-dev/dra-driver-rdma/test/cluster v0.0.0-00010101000000-000000000000
	github.com/vishvananda/netlink v1.3.1
	golang.org/x/sys v0.49.0
)

require (
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
)

replace github.com/rdma-dev/dra-driver-rdma/test/cluster => ../cluster

replace github.com/rdma-dev/dra-driver-rdma => ../..
