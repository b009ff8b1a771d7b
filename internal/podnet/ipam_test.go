package podnet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rdma-dev/dra-driver-rdma/internal/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/podnet/podnettest"
)

func prefixes(ss ...string) (out []string) { return ss }

func texts(ps []netip.Prefix) (out []string) {
	for _, p := range ps {
		out = append(out, p.String())
	}
	return out
}

// TestHostLocal: the plugin that most sites have, as it is.
func TestHostLocal(t *testing.T) {
	ipam := &podnet.IPAM{Dir: podnettest.Plugins(t)}
	data := t.TempDir()
	config := fmt.Sprintf(`{"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.78.0.0/30", "gateway": "10.78.0.2"}], [{"subnet": "fd78::/126"}]], "routes": [{"dst": "10.79.0.0/16"}, {"dst": "10.80.0.0/16", "gw": "10.78.0.3"}]}`, data)
	lease := func(container string) podnet.Lease {
		return podnet.Lease{Network: "roce", Config: json.RawMessage(config), Container: container, Netns: "/run/netns/x", Interface: "rdma0"}
	}
	addresses, routes, err := ipam.Add(t.Context(), lease("claim.nic.pod"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(prefixes("10.78.0.1/30", "fd78::2/126"), texts(addresses)); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if got, want := fmt.Sprint(routes), "[{10.79.0.0/16 10.78.0.2} {10.80.0.0/16 10.78.0.3}]"; got != want {
		t.Errorf("routes %s, want %s", got, want)
	}
	if _, _, err := ipam.Add(t.Context(), lease("another")); err == nil || !strings.Contains(err.Error(), `get an address of ipam "roce" by CNI plugin`) {
		t.Errorf("no address is left, and the error is %v", err)
	}
	for range 2 {
		if err := ipam.Del(t.Context(), lease("claim.nic.pod")); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := ipam.Add(t.Context(), lease("another")); err != nil {
		t.Errorf("after the address was given back: %v", err)
	}
}

// TestIPAMFails: errors say what to do, and no configuration leads out of the directory.
func TestIPAMFails(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "silent"), []byte("#!/bin/sh\necho '{\"cniVersion\": \"1.0.0\"}'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ipam := &podnet.IPAM{Dir: dir}
	for config, says := range map[string]string{
		`{"type": "host-local"}`:     "install the CNI plugin on the node, or name its directory (--cni-bin-dir)",
		`{"type": "../../bin/true"}`: "invalid plugin name",
		`{"type": "/bin/true"}`:      "invalid plugin name",
		`{}`:                         "has no type",
		`[]`:                         "read its configuration",
		`{"type": "silent"}`:         "it gave no address",
	} {
		_, _, err := ipam.Add(context.Background(), podnet.Lease{Network: "roce", Config: json.RawMessage(config), Container: "c", Netns: "/n", Interface: "rdma0"})
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), `ipam "roce"`) {
			t.Errorf("%s: %v, want %q", config, err, says)
		}
	}
}
