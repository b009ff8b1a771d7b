package testbed

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// resolver answers for the kubelet. It adds the devices of claims to those of device
// plugins, under the resource name and with the ID that their attributes have.
type resolver struct {
	podresources.UnimplementedPodResourcesListerServer
	kubelet podresources.PodResourcesListerClient
	devices func() map[string]Device
}

// resolve puts a resolver in front of the kubelet's socket until the test ends.
func resolve(t *testing.T, dir string, devices func() map[string]Device) {
	t.Helper()
	socket, kubelet := filepath.Join(dir, "kubelet.sock"), filepath.Join(dir, "kubelet-itself.sock")
	must.NoError(t, os.Rename(socket, kubelet))
	conn, err := grpc.NewClient("unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must.NoError(t, err)
	listener, err := net.Listen("unix", socket)
	must.NoError(t, err)
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, &resolver{kubelet: podresources.NewPodResourcesListerClient(conn), devices: devices})
	go func() { _ = server.Serve(listener) }() // it ends by Stop
	t.Cleanup(func() {
		server.Stop()
		conn.Close()
		test.NoError(t, os.Rename(kubelet, socket))
	})
}

// List implements what Multus and the driver ask for.
func (r *resolver) List(ctx context.Context, req *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	resp, err := r.kubelet.List(ctx, req)
	if err != nil {
		return nil, err
	}
	devices := r.devices()
	for _, pod := range resp.GetPodResources() {
		known := map[string]bool{} // a claim may be of several containers
		for _, c := range pod.GetContainers() {
			for _, claim := range c.GetDynamicResources() {
				for _, result := range claim.GetClaimResources() {
					d := devices[result.GetDeviceName()]
					name, id := d.cni("resourceName"), d.cni("deviceID")
					if result.GetDriverName() != "rdma.dev" || name == "" || id == "" || known[d.Name] {
						continue
					}
					known[d.Name] = true
					c.Devices = append(c.Devices, &podresources.ContainerDevices{ResourceName: name, DeviceIds: []string{id}})
				}
			}
		}
	}
	return resp, nil
}

// cni is an attribute for CNI plugins, empty if the device has none.
func (d Device) cni(name string) string {
	value, _ := d.Attributes["k8s.cni.cncf.io/"+name]["string"].(string)
	return value
}
