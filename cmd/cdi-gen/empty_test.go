package main

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/spf13/pflag"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestEmptyValues: no flag of any verb takes an empty value, alone or as a part of a list. In a
// script it is a variable that is not set, and would stand for all devices, or for none.
func TestEmptyValues(t *testing.T) {
	root := host(t, "roce-sriov")
	var tried []string
	for _, cmd := range newRoot().Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			values := []string{""}
			switch f.Value.Type() {
			case "bool":
				return
			case "stringSlice":
				values = []string{"", " ", "mlx5_0,", ",mlx5_0", "mlx5_0,,mlx5_1"}
			}
			tried = append(tried, cmd.Name()+" "+f.Name)
			for _, value := range values {
				args := []string{cmd.Name(), "--" + f.Name, value}
				if f.Name != "host-root" && cmd.Flags().Lookup("host-root") != nil {
					args = append(args, "--host-root", root)
				}
				r := cdigen(t, args...)
				r.expect(t, exitUsage, `invalid argument "`+value+`" for "`)
				r.expect(t, exitUsage, "an empty value; is a variable of the shell not set?")
				test.Eq(t, "", r.stdout, test.Sprintf("%s: standard output", args))
			}
		})
	}
	for _, want := range []string{"generate device", "generate output", "list exclude", "remove from", "userspace output",
		"doctor host-root"} {
		test.StrContains(t, strings.Join(tried, "\n")+"\n", want+"\n", test.Sprintf("--%s was not tried", want))
	}
	// After a good one as well, and an argument too.
	cdigen(t, "list", "--host-root", root, "--device", "mlx5_0", "--device", "").expect(t, exitUsage, "an empty value")
	cdigen(t, "validate", "").expect(t, exitUsage, "an empty argument")
}

// TestExcludeNothing: who excludes a device that is not there has written another name than that
// of the device to keep from containers.
func TestExcludeNothing(t *testing.T) {
	for _, args := range [][]string{{"generate", "--no-hook"}, {"list"}, {"userspace"}, {"topology"}} {
		args = append(args, "--host-root", host(t, "roce-sriov"), "--exclude", "mlx5_8,mlx5_77")
		cdigen(t, args...).expect(t, exitUsage, `no device matches "mlx5_77": have mlx5_0, mlx5_2`)
	}
	// Where devices may be absent, and where the device is there and cannot be read.
	r := cdigen(t, "generate", "--no-hook", "--host-root", host(t, "roce-sriov"), "--names", "ibdev", "--exclude",
		"mlx5_8,mlx5_77", "--allow-absent")
	r.expect(t, exitOK, "")
	if !strings.Contains(r.stdout, "name: mlx5_9\n") || strings.Contains(r.stdout, "name: mlx5_8\n") {
		t.Errorf("the spec has\n%s", r.stdout)
	}
	snap := &rdma.Snapshot{HCAs: []rdma.HCA{{IBDev: "mlx5_0"}},
		Problems: []rdma.Problem{{Message: "of the host"}, {IBDev: "mlx5_1"}}}
	if err := (&hostFlags{exclude: []string{"mlx5_1"}}).filter(snap); err != nil || len(snap.HCAs) != 1 ||
		len(snap.Problems) != 1 {
		t.Errorf("%d HCAs, problems %v, error %v; want the HCA, and no problem with the excluded one", len(snap.HCAs),
			snap.Problems, err)
	}
	test.Error(t, (&hostFlags{exclude: []string{"", "mlx5_1"}}).filter(snap),
		test.Sprint("an empty pattern excludes the host"))
}
