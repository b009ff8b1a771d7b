module github.com/rdma-dev/dra-driver-rdma/test/cluster/build/pause

go 1.26.0
