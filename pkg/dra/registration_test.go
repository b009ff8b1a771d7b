package dra_test

import (
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// TestRegistrationRefused: a kubelet that refuses the driver at first, as one that still
// has another version of it, and takes it later, is served.
func TestRegistrationRefused(t *testing.T) {
	n := drivertest.NewNode(t, "roce-lag")
	start(t, n)
	conn, err := grpc.NewClient("unix://"+filepath.Join(n.Dir, "plugins_registry", "rdma.dev-reg.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must.NoError(t, err)
	defer conn.Close()
	refusal := &registerapi.RegistrationStatus{PluginRegistered: false, Error: "refused by the test"}
	// The library gives the kubelet its own words back.
	_, err = registerapi.NewRegistrationClient(conn).NotifyRegistrationStatus(drivertest.Context(t), refusal)
	test.Error(t, err, test.Sprint("the driver takes a refusal for a registration"))
	n.Restart()
	c := drivertest.Claim(1, "pci-0000-3b-00-0")
	n.AddClaim(c)
	prepare(t, n, c)
	unprepare(t, n, c)
}
