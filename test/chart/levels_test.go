package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// level is one use of the driver: what it needs beside the levels before it.
type level struct{ use, values string }

// levels are all uses, least first.
var levels = []level{
	{"HCAs", "hostPaths.hook=,claims.status=false,claims.events=false"},
	{"[locked memory](hook.md)", "hostPaths.hook=/opt/rdma.dev/bin"},
	{"[status of claims](reference/events.md#the-status-of-a-claim)", "claims.status=true"},
	{"[events](reference/events.md) of claims and pods", "claims.events=true"},
	{"[metrics](metrics.md), [status page](status-page.md)", "metrics.enabled=true"},
	{"[CNI plugins by Multus](cni.md)", "hostPaths.deviceInfo=/var/run/k8s.cni.cncf.io/devinfo/dp"},
	{"[leaf switches](leaf-switches.md)", "config.leafFrom[0]=networkd,config.leafFrom[1]=file"},
	{"[their label](leaf-switches.md#keep-a-job-together)", "config.leafLabelRail=0"},
	{"[exec sessions](network.md#exec-sessions-and-probes)", "nri.enabled=true"},
	{"[HCAs that follow pods](network.md#exclusive-mode), [network interfaces](network.md#network-interfaces)",
		"network.enabled=true"},
	{
		"[blocks of addresses](network.md#addresses-that-are-unique-in-the-cluster)",
		"config.ipam.roce.subnet=10.78.0.0/16,config.ipam.roce.perNode=24,config.ipam.roce.clusterCIDR[0]=10.244.0.0/16",
	},
	{"[addresses by CNI plugins](network.md#addresses-by-a-cni-plugin)", "hostPaths.cniBin=/opt/cni/bin"},
}

// directories name the values of directories, where no level sets them.
const directories = "hostPaths.kubelet=/hostPaths.kubelet,hostPaths.cdi=/hostPaths.cdi"

// TestLevels: docs/security.md has a table of the uses of the driver, and what each adds: rights in
// the cluster, capabilities and directories of the host, as the chart renders them.
func TestLevels(t *testing.T) {
	var table strings.Builder
	table.WriteString("| use | values | rights in the cluster | capabilities | directories of the host |\n")
	table.WriteString("|---|---|---|---|---|\n")
	args := []string{"--set", directories}
	var before [3][]string
	for _, l := range levels {
		args = append(args, "--set", l.values)
		set := daemonSet(t, args...)
		now := [3][]string{granted(t, args...), capabilities(t, set), directoriesOf(t, set)}
		added := [3][]string{}
		for i := range now {
			if gone := without(before[i], now[i]); len(gone) > 0 {
				t.Errorf("%s takes away %v: the table says that each level adds", l.use, gone)
			}
			added[i] = without(now[i], before[i])
		}
		before = now
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n",
			l.use, valuesOf(l.values), byResource(added[0]),
			strings.Join(added[1], ", "), strings.Join(added[2], ", "))
	}
	golden.Section(t, securityDoc, "levels", table.String())
}

// TestNetworkEnabled: network.enabled turns on all of networks, nri.enabled only the connection.
func TestNetworkEnabled(t *testing.T) {
	const socket = "--nri-socket=/var/run/nri/nri.sock"
	for set, want := range map[string]string{
		"network.enabled=false": "",
		"nri.enabled=true":      socket + " --move-devices=false --attach-interfaces=false",
		"network.enabled=true":  socket + " --move-devices=true --attach-interfaces=true",
	} {
		var got []string
		for _, arg := range driver(t, daemonSet(t, "--set", set)).Args {
			name, _, _ := strings.Cut(arg, "=")
			if slices.Contains([]string{"--nri-socket", "--move-devices", "--attach-interfaces"}, name) {
				got = append(got, arg)
			}
		}
		test.Eq(t, want, strings.Join(got, " "), test.Sprintf("%s: flags %q", set, got))
	}
}

// TestLevelsAreAll: no value of the chart gives the driver more than all levels together.
func TestLevelsAreAll(t *testing.T) {
	args := []string{}
	for _, l := range levels {
		args = append(args, "--set", l.values)
	}
	full := []string{
		"--values", "testdata/full.values.yaml", "--set", "hostPaths.deviceInfo=/devinfo,metrics.tlsSecret=",
		"--set-json", "metrics.readers=[],metrics.serviceMonitor=false,accessRoles.create=false", // not the driver's
	}
	if more := without(granted(t, full...), granted(t, args...)); len(more) > 0 {
		t.Errorf("rights of no level: %v", more)
	}
	all, levelled := daemonSet(t, full...), daemonSet(t, args...)
	if more := without(capabilities(t, all), capabilities(t, levelled)); len(more) > 0 {
		t.Errorf("capabilities of no level: %v", more)
	}
	if a, b := len(directoriesOf(t, all)), len(directoriesOf(t, levelled)); a != b {
		t.Errorf("%d directories of the host, want the %d of all levels", a, b)
	}
}

func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

func capabilities(t *testing.T, set *appsv1.DaemonSet) (names []string) {
	t.Helper()
	for _, c := range driver(t, set).SecurityContext.Capabilities.Add {
		names = append(names, "`"+string(c)+"`")
	}
	return names
}

// directoriesOf names the directories of the host by their values, with what the driver may do there.
func directoriesOf(t *testing.T, set *appsv1.DaemonSet) (names []string) {
	t.Helper()
	valueOf := map[string]string{
		"/opt/rdma.dev/bin": "hostPaths.hook", "/opt/cni/bin": "hostPaths.cniBin", "/sys": "/sys", "/dev": "/dev",
		"/var/run/k8s.cni.cncf.io/devinfo/dp": "hostPaths.deviceInfo",
	}
	for _, m := range mounts(t, set) {
		name := m.Host
		if value, ok := strings.CutPrefix(name, "/hostPaths."); ok {
			name = "hostPaths." + value
		}
		if v, ok := valueOf[m.Host]; ok {
			name = v
		}
		name = "`" + name + "`"
		if !m.ReadOnly {
			name += " (write)"
		}
		names = append(names, name)
	}
	return names
}

// byResource writes rights with the verbs of a resource together.
func byResource(rights []string) string {
	var order []string
	verbs := map[string][]string{}
	for _, right := range rights {
		where, rest, _ := strings.Cut(right, ": ")
		verb, resource, _ := strings.Cut(rest, " ")
		resource, name, named := strings.Cut(resource, " ")
		resource, _, _ = strings.Cut(resource, ".")
		if named {
			resource += " `" + name + "`"
		}
		if where != "cluster" {
			resource += " in `" + where + "`"
		}
		if verbs[resource] == nil {
			order = append(order, resource)
		}
		verbs[resource] = append(verbs[resource], "`"+verb+"`")
	}
	for i, resource := range order {
		order[i] = strings.Join(verbs[resource], " ") + " " + resource
	}
	return strings.Join(order, ", ")
}

func valuesOf(set string) string {
	if strings.HasPrefix(set, "config.ipam") {
		return "`config.ipam`"
	}
	var values []string
	for value := range strings.SplitSeq(set, ",") {
		values = append(values, "`"+value+"`")
	}
	return strings.Join(values, " ")
}
