package events

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/genl"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/networkd"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/lldptest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// TestLeaf: a driver publishes the leaf switch of HCAs on bonds, from a networkd. Both members of the first bond hear
// one switch, between frames that are broken or too long. Those of the second hear two, so it has none.
func TestLeaf(t *testing.T) {
	if _, err := user.Lookup("systemd-network"); err != nil { // as the package systemd makes it
		inside.Must(t, "useradd", "--system", "--user-group", "--no-create-home", "systemd-network")
	}
	for bond, members := range map[string][]string{"bond8": {"leaf0", "leaf1"}, "bond9": {"leaf2", "leaf3"}} {
		inside.Must(t, "ip", "link", "add", bond, "type", "bond", "mode", "active-backup", "miimon", "100")
		for _, m := range members {
			inside.Must(t, "ip", "link", "add", m, "type", "veth", "peer", "name", "sw-"+m)
			inside.Must(t, "ip", "link", "set", m, "master", bond)
			inside.Must(t, "ip", "link", "set", "sw-"+m, "up")
		}
		inside.Must(t, "ip", "link", "set", bond, "up")
		inside.Must(t, "rdma", "link", "add", "rxe_"+bond, "type", "rxe", "netdev", bond)
		t.Cleanup(func() {
			inside.Must(t, "rdma", "link", "del", "rxe_"+bond)
			inside.Must(t, "ip", "link", "del", bond)
			for _, m := range members {
				inside.Must(t, "ip", "link", "del", m)
			}
		})
	}
	withoutUdev := []string{"unshare", "--mount", "sh", "-c", `mount -o remount,ro,bind /sys && exec "$@"`, "sh"}
	lldptest.Start(t, "leaf*", append(withoutUdev, strings.Fields(os.Getenv(vmtest.NetworkdVariable))...)...)

	ignored := []string{
		lldptest.Header + "\xff\xff", lldptest.Frame("leaf-6", "swp1")[:30],
		lldptest.Frame(strings.Repeat("x", 300), "swp1"),
	}
	announce := func() {
		for member, system := range map[string]string{
			"leaf0": "leaf-7", "leaf1": "leaf-7", "leaf2": "leaf-7", "leaf3": "leaf-8",
		} {
			for _, frame := range append(ignored, lldptest.Frame(system, "swp1")) {
				lldptest.Send(t, "sw-"+member, frame)
			}
		}
	}
	inside.Eventually(t, "announcements on all members", 5*time.Minute, func() error {
		announce()
		dial := func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join("/", networkd.Dir, networkd.Socket))
		}
		heard, err := networkd.Read(t.Context(), dial)
		for _, member := range []string{"leaf0", "leaf1", "leaf2", "leaf3"} {
			link, linkErr := net.InterfaceByName(member)
			must.NoError(t, linkErr)
			if err == nil && len(heard[link.Index]) == 0 {
				err = fmt.Errorf("%s has heard nothing", member)
			}
		}
		return err
	})

	p, err := policy.Parse([]byte("apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\nleafFrom: [networkd]\n"))
	must.NoError(t, err)
	api, kubelet := drivertest.NewAPI(t), drivertest.NewKubelet(t)
	driver, err := dra.New(dra.Config{
		NodeName: drivertest.NodeName, HostRoot: "/", KubeletDir: kubelet.Dir, StateDir: t.TempDir(),
		CDIDir: t.TempDir(), Site: plan.DefaultSite(), Policy: p, Genl: &genl.Kernel{},
	}, api.Client(t))
	must.NoError(t, err)
	drivertest.Run(t, driver)
	leaves := func() map[string]string {
		out := map[string]string{}
		for _, s := range api.Slices() {
			for _, d := range s.Spec.Devices {
				if name, bonded := strings.CutPrefix(d.Name, "soft-rxe-"); bonded && strings.HasPrefix(name, "bond") {
					out[name] = ""
					if leaf := d.Attributes["leafSwitch"].StringValue; leaf != nil {
						out[name] = *leaf
					}
				}
			}
		}
		return out
	}
	inside.Eventually(t, "the leaves of both bonds", 10*time.Minute, func() error {
		announce() // what was heard is valid for two minutes
		if got := leaves(); !maps.Equal(got, map[string]string{"bond8": "leaf-7", "bond9": ""}) {
			err := fmt.Errorf("they are %v, want leaf-7 for bond8 alone", got)
			for _, hca := range driver.Status(t.Context()).HCAs {
				for _, port := range hca.Ports {
					err = fmt.Errorf("%w; %s: %+v", err, hca.Name, port.Leaf)
				}
			}
			return err
		}
		return nil
	})
}
