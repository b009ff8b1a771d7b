package faults

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	resourceapi "k8s.io/api/resource/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/apifault"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
)

// TestTokenIsRenewed: a driver whose token is refused takes the new one at once.
func TestTokenIsRenewed(t *testing.T) {
	t.Parallel()
	b := newBadAPI(t, faultMachine)
	b.Arm(apifault.Fault{N: 1, Do: apifault.Expired("first"), Lasting: true})
	b.start(t)
	drivertest.WaitPublished(t, b.Node)
	c := drivertest.Claim(1, faultHCA)
	b.AddClaim(c)
	must.NoError(t, b.call(c))
	b.Arm(apifault.Fault{N: 1, Do: apifault.Expired("second"), Lasting: true})
	must.ErrorContains(t, b.call(c), "refused by the test", must.Sprint("with the old token"))
	must.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(b.kubeconfig), "token"), []byte("second"), 0o600))
	test.NoError(t, b.call(c), test.Sprint("with the new token"))
}

// claimEach returns claims of all HCAs, each with one, which the API server has.
func (b *badAPI) claimEach(t *testing.T) []*resourceapi.ResourceClaim {
	t.Helper()
	var out []*resourceapi.ResourceClaim
	for i, name := range drivertest.DeviceNames(drivertest.WaitPublished(t, b.Node)) {
		out = append(out, drivertest.Claim(i+1, name))
	}
	b.AddClaim(out...)
	return out
}

// TestClaimsOfOneCall: the API server is asked for all claims of a call at once, so that a
// slow one does not take the time of a claim for each of them.
func TestClaimsOfOneCall(t *testing.T) {
	t.Parallel()
	b := newBadAPI(t, "hgx-h100")
	b.start(t)
	claims := b.claimEach(t)
	shot := b.Arm(apifault.Fault{N: 1, Match: apifault.Claims, Do: apifault.Together(len(claims)), Lasting: true})
	response, err := b.Prepare(drivertest.Context(t), claims...)
	must.NoError(t, err)
	for _, c := range claims {
		if _, err := drivertest.Devices(response, c); err != nil {
			t.Error(err)
		}
	}
	test.Eq(t, len(claims), len(shot.Seen()), test.Sprint("requests"))
}

// TestServerComesBack: a server that is away for a moment is not noticed by the kubelet, which would
// come back after a minute only.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	b := newBadAPI(t, "hgx-h100")
	b.start(t)
	claims := b.claimEach(t)
	var n atomic.Int64
	twoOfThree := func(r *http.Request) bool { return apifault.Claims(r) && n.Add(1)%3 != 0 }
	b.Arm(apifault.Fault{N: 1, Match: twoOfThree, Do: apifault.Down, Lasting: true})
	ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
	defer cancel()
	response, err := b.Prepare(ctx, claims...)
	must.NoError(t, err)
	for _, c := range claims {
		if _, err := drivertest.Devices(response, c); err != nil {
			t.Error(err)
		}
	}
}

// TestTroubleIsSaid: who asks the driver over its socket hears what is wrong with the API server
// while it is, and the log says it once.
func TestTroubleIsSaid(t *testing.T) {
	t.Parallel()
	b := newBadAPI(t, "hgx-h100")
	p := b.start(t)
	claims := b.claimEach(t)
	said := func() []string {
		conn, err := grpc.NewClient("unix://"+b.Sockets()[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
		must.NoError(t, err)
		defer conn.Close()
		var header metadata.MD
		if _, err := registerapi.NewRegistrationClient(conn).GetInfo(drivertest.Context(t), &registerapi.InfoRequest{}, grpc.Header(&header)); err != nil {
			t.Fatal(err)
		}
		return header.Get(dra.TroubleHeader)
	}
	shot := b.Arm(apifault.Fault{N: 1, Match: apifault.Claims, Do: apifault.Status(http.StatusUnauthorized), Lasting: true})
	for range 2 {
		must.Error(t, b.call(claims[0]), must.Sprint("prepared"))
	}
	test.StrContains(t, strings.Join(said(), "\n"), "get resourceclaims: unauthorized, 2 times",
		test.Sprint("the driver"))
	shot.Disarm()
	must.NoError(t, b.call(claims[0]))
	if got := strings.Join(said(), "\n"); strings.Contains(got, "unauthorized") { // on a busy machine the server is slow
		t.Errorf("after the trouble the driver says %q", got)
	}
	p.Terminate()
	for _, line := range []string{`request="get resourceclaims" reason="unauthorized"`, `request="get resourceclaims" was="unauthorized" times=2`} {
		if n := strings.Count(p.Output(), line); n != 1 {
			t.Errorf("the log has %d times %q", n, line)
		}
	}
}
