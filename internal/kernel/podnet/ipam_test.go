package podnet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

func texts[T fmt.Stringer](all []T) (out []string) {
	for _, p := range all {
		out = append(out, p.String())
	}
	return out
}

// TestHostLocal: the plugin that most sites have, as it is.
func TestHostLocal(t *testing.T) {
	ipam := &podnet.IPAM{Owner: "rdma.dev", Dir: podnettest.Plugins(t)}
	data := t.TempDir()
	config := fmt.Sprintf(`{"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.78.0.0/30", "gateway": `+
		`"10.78.0.2"}], [{"subnet": "fd78::/126"}]], "routes": [{"dst": "10.79.0.0/16"}, {"dst": "10.80.0.0/16", "gw": `+
		`"10.78.0.3"}]}`, data)
	lease := func(container string) podnet.Lease {
		return podnet.Lease{Network: "roce", Config: json.RawMessage(config), Container: container, Netns: "/run/netns/x",
			Interface: "rdma0"}
	}
	got, err := ipam.Add(t.Context(), lease("claim.nic.pod"))
	must.NoError(t, err)
	test.Eq(t, []string{"10.78.0.1/30", "fd78::2/126"}, texts(got.Addresses), test.Sprint("addresses"))
	test.Eq(t, []string{"10.78.0.2", "fd78::1"}, texts(got.Gateways), test.Sprint("gateways"))
	if got, want := fmt.Sprint(got.Routes), "[{10.79.0.0/16 10.78.0.2} {10.80.0.0/16 10.78.0.3}]"; got != want {
		t.Errorf("routes %s, want %s", got, want)
	}
	if _, err := ipam.Add(t.Context(), lease("another")); err == nil ||
		!strings.Contains(err.Error(), `get an address of ipam "roce" by CNI plugin`) {
		t.Errorf("no address is left, and the error is %v", err)
	}
	for range 2 {
		test.NoError(t, ipam.Del(t.Context(), lease("claim.nic.pod")))
	}
	if _, err := ipam.Add(t.Context(), lease("another")); err != nil {
		t.Errorf("after the address was given back: %v", err)
	}
}

// TestStatic: the plugin that gives what its configuration says, to whoever asks.
func TestStatic(t *testing.T) {
	ipam := &podnet.IPAM{Owner: "rdma.dev", Dir: podnettest.Plugins(t)}
	l := podnet.Lease{Network: "roce", Container: "claim.nic.pod", Netns: "/run/netns/x", Interface: "rdma0",
		Config: json.RawMessage(
			`{"type": "static", "addresses": [{"address": "10.78.0.5/24", "gateway": "10.78.0.1"}, ` +
				`{"address": "fd78::5/64"}, {"address": "10.78.9.5/32", "gateway": "169.254.1.1"}], ` +
				`"routes": [{"dst": "10.79.0.0/16"}, ` +
				`{"dst": "fd79::/64", "gw": "fd78::1"}, {"dst": "fd80::/64"}]}`)}
	for range 2 {
		got, err := ipam.Add(t.Context(), l)
		must.NoError(t, err)
		test.Eq(t, []string{"10.78.0.5/24", "fd78::5/64", "10.78.9.5/32"}, texts(got.Addresses),
			test.Sprint("addresses"))
		if diff := cmp.Diff([]string{"10.78.0.1"}, texts(got.Gateways)); diff != "" { // not one that is out of reach
			t.Errorf("gateways (-want +got):\n%s", diff)
		}
		const routes = "[{10.79.0.0/16 10.78.0.1} {fd79::/64 fd78::1} {fd80::/64 invalid IP}]"
		test.Eq(t, routes, fmt.Sprint(got.Routes), test.Sprint("routes"))
	}
	for range 2 {
		test.NoError(t, ipam.Del(t.Context(), l))
	}
}

// TestIPAMFails: errors say what to do, and no configuration leads out of the directory.
func TestIPAMFails(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "silent"), []byte("#!/bin/sh\necho '{\"cniVersion\": \"1.0.0\"}'\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	ipam := &podnet.IPAM{Owner: "rdma.dev", Dir: dir}
	for config, says := range map[string]string{
		`{"type": "host-local"}`:     "install the CNI plugin on the node, or name its directory (--cni-bin-dir)",
		`{"type": "../../bin/true"}`: "invalid plugin name",
		`{"type": "/bin/true"}`:      "invalid plugin name",
		`{}`:                         "has no type",
		`[]`:                         "read its configuration",
		`{"type": "silent"}`:         "it gave no address",
	} {
		_, err := ipam.Add(context.Background(), podnet.Lease{Network: "roce", Config: json.RawMessage(config),
			Container: "c", Netns: "/n", Interface: "rdma0"})
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), `ipam "roce"`) {
			t.Errorf("%s: %v, want %q", config, err, says)
		}
	}
}

// TestPluginsInTrouble: whatever a plugin does, somebody is told of it in time, and nothing that it has
// started lives on.
func TestPluginsInTrouble(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		script, says string
		patience     time.Duration
	}{
		"hangs":                   {"sleep 1000", "it took too long, and was stopped after 100ms", 100 * time.Millisecond},
		"hangs elsewhere":         {"sleep 1000 & echo $! >" + dir + "/child; wait", "it took too long", 2 * time.Second},
		"crashes":                 {"kill -SEGV $$", "segmentation fault", 0},
		"talks":                   {"echo help me >&2; exit 3", `exit status 3: "help me"`, 0},
		"complains":               {`echo '{"cniVersion": "1.0.0", "code": 11, "msg": "no pool", "details": "of that name"}'; exit 1`, "no pool; of that name", 0},
		"prints garbage":          {"echo garbage", "unmarshal raw result: invalid character", 0},
		"prints nothing":          {"true", "unexpected end of JSON input", 0},
		"half an address":         {`echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.3"}]}'`, "invalid CIDR address", 0},
		"no address":              {`echo '{"cniVersion": "1.0.0", "ips": [{}]}'`, "which is not an address", 0},
		"another version":         {`echo '{"cniVersion": "9.0.0", "ips": []}'`, "unsupported CNI result version", 0},
		"is not a program":        {"", "exec format error", 0},
		"writes without end":      {"exec yes", "it wrote more than 1024 KiB, and was stopped", 0},
		"complains at length":     {"yes no | head -c 100000 >&2; exit 3", "exit status 3: \"no | no", 0},
		"has a child that writes": {"yes & exit 0", "it wrote more than 1024 KiB", 0},
		"has a child that stays":  {"sleep 1000 & echo $! >" + dir + "/left; echo {}; exit 0", "WaitDelay expired", 0},
		"gives many addresses": {`echo '{"cniVersion": "1.0.0", "ips": ['; for i in $(seq 40); do ` +
			`echo '{"address": "10.1.2.3/24"},'; done; echo '{"address": "10.1.2.3/24"}]}'`,
			"it gave 41 addresses and 0 routes: an interface can have 32 and 256", 0},
	} {
		t.Run(name, func(t *testing.T) {
			script := []byte("#!/bin/sh\n" + tc.script + "\n")
			if tc.script == "" {
				script = []byte{0x7f}
			}
			must.NoError(t, os.WriteFile(filepath.Join(dir, "plugin"), script, 0o755))
			ipam := &podnet.IPAM{Owner: "rdma.dev", Dir: dir, Patience: tc.patience}
			l := podnet.Lease{Network: "roce", Config: json.RawMessage(`{"type": "plugin"}`), Container: "c", Netns: "/n",
				Interface: "rdma0"}
			_, err := ipam.Add(t.Context(), l)
			if err == nil || !strings.Contains(err.Error(), tc.says) || len(err.Error()) > 10<<10 {
				t.Errorf("error %.300v, want %q", err, tc.says)
			}
			if fails := strings.Contains(tc.script, "exit ") || tc.patience > 0; fails {
				test.ErrorContains(t, ipam.Del(t.Context(), l), tc.says, test.Sprint("error of DEL"))
			}
		})
	}
	for _, name := range []string{"child", "left"} {
		child, err := os.ReadFile(filepath.Join(dir, name))
		must.NoError(t, err)
		for { // it is killed, and gone when its new parent has heard of it
			stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(child)) + "/stat")
			if err != nil || strings.Contains(string(stat), ") Z ") {
				break
			}
		}
	}
}
