package follow

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// TestShared: in shared mode the pods of examples/macvlan.yaml have shares of one device, macvlans on its interface,
// and addresses of a CNI plugin. They talk by rdma_cm on their own addresses, with their own GIDs. Nothing of it is
// left.
func TestShared(t *testing.T) {
	needs.Long(t, "pods of TestTwoNodes talk by interfaces of their claims in shared mode; TestShapes has a macvlan")
	share(t)
	before := counted(t)
	exampleTalks(t, "macvlan")
	home(t, before)
}

// TestSharedMore is TestShared for examples/ipvlan.yaml and examples/vlan.yaml, and for two pods that have a device
// each, with addresses of their claims.
func TestSharedMore(t *testing.T) {
	needs.Long(t, "TestMove shows pods with interfaces, and TestShapes the shapes without")
	share(t)
	before := counted(t)
	server, client := end{"server", "one", "rxm1"}, end{"client", "one", "rxm2"}
	createNetworked(t, server.pod, server.ibdev, `{"addresses":["10.79.1.1/24"],"mode":"macvlan"}`)
	createNetworked(t, client.pod, client.ibdev, `{"addresses":["10.79.1.2/24"],"mode":"macvlan"}`)
	ready(t, server.pod)
	ready(t, client.pod)
	converse(t, [2]end{server, client})
	write(t, server, client, podInterface, podInterface, server.address(t).String())
	ends(t, server.pod)
	ends(t, client.pod)
	exampleTalks(t, "ipvlan")
	exampleTalks(t, "vlan")
	home(t, before)
}

// exampleTalks has the two pods of an example talk.
func exampleTalks(t *testing.T, shape string) {
	t.Helper()
	example := apply(t, shape)
	pair := [2]end{{shape + "-a", "app", "rxm3"}, {shape + "-b", "app", "rxm3"}}
	ready(t, pair[0].pod)
	ready(t, pair[1].pod)
	if shape == "ipvlan" {
		// All ipvlans have the address of the device's interface, and soft-RoCE loops back what goes there.
		pair[0].described(t)
		pair[1].described(t)
		talk(t, pair[0], pair[1])
	} else {
		converse(t, pair)
	}
	write(t, pair[0], pair[1], podInterface, podInterface, pair[0].address(t).String())
	remove(t, example, pair[0].pod, pair[1].pod)
}

// remove deletes an example, and waits until its pods are gone.
func remove(t *testing.T, example string, pods ...string) {
	t.Helper()
	if out, err := node.Output(t.Context(), "kubectl", "delete", "--filename", example); err != nil {
		t.Errorf("delete %s: %v\n%s", example, err, out)
	}
	for _, pod := range pods {
		ends(t, pod)
	}
}

// converse has two pods talk. What their devices sent went out by the interfaces of the pods: with
// a GID that is not the pod's it would go out by another one.
func converse(t *testing.T, pair [2]end) {
	t.Helper()
	devices := map[string]int{}
	for _, e := range pair {
		e.described(t)
		devices[e.ibdev] = inside.SentPackets(t, e.ibdev)
	}
	before := pair[0].sent(t) + pair[1].sent(t)
	talk(t, pair[0], pair[1])
	byInterfaces, byDevices := pair[0].sent(t)+pair[1].sent(t)-before, 0
	for ibdev, before := range devices {
		byDevices += inside.SentPackets(t, ibdev) - before
	}
	if byDevices == 0 || byInterfaces < byDevices {
		t.Errorf("the devices of %v have sent %d packets, and the interfaces of the pods %d", pair,
			byDevices, byInterfaces)
	}
}

// share sets the mode to shared for this test, and waits until the driver knows.
func share(t *testing.T) {
	t.Helper()
	inside.NetnsMode(t, "shared")
	t.Cleanup(func() { inside.NetnsMode(t, "exclusive") })
	// The kernel does not announce it, and the driver looks each half minute, or when a link
	// changes.
	inside.Must(t, "ip", "link", "set", "dummy1", "mtu", "1400")
	awaitOffer(t, "rxm3")
}

// apply applies an example as it is. Its image is that with the RDMA programs.
func apply(t *testing.T, name string) (path string) {
	t.Helper()
	checkout, err := deploy.FindCheckout()
	must.NoError(t, err)
	if path, err = filepath.Abs(checkout.Example(name)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"ctr", "images", "tag", "--force", vm.ToolsImage, "docker.io/library/busybox:1.37"},
		{"kubectl", "apply", "--filename", path},
	} {
		if out, err := node.Output(t.Context(), args[0], args[1:]...); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return path
}
