// Package cluster runs a real one-node Kubernetes cluster on a Linux host: etcd, the
// API server, controller manager, scheduler, containerd and the kubelet, built from
// pinned Go modules, in namespaces of their own. It needs root, and neither a
// container engine nor a virtual machine. Nothing of the host's is changed: its
// files, ports, sysctls, containerd, kubelet and RDMA devices are not touched, and
// Down leaves nothing behind but the cache of built programs.
//
// A program that calls Up must call Init first in its main function or TestMain: the
// cluster's process 1 is the same program, started again.
//
//	func TestMain(m *testing.M) {
//		cluster.Init()
//		os.Exit(m.Run())
//	}
//
// One state directory has one cluster; clusters with state directories of their own run side by
// side. Up is idempotent: it leaves a running cluster alone, starts what was stopped, and waits
// until the node is ready.
package cluster
