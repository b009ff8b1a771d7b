package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/traffic"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
)

// TestReport: a page costs each list once, whatever number of pods it explains, and says what could not be read.
func TestReport(t *testing.T) {
	f := fleet.Fabric(t)
	for i := range 12 { // whoever may write ConfigMaps can write anything
		f.ConfigMaps = append(f.ConfigMaps, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "rdma-test", Name: fmt.Sprint("r", i), Labels: map[string]string{traffic.Label: "results"},
		}})
	}
	s := newSession(t, f)
	page := s.ok("report", "--node", "gpu-12", "--search-time=1m")
	slices.Sort(s.server.Asked)
	must.Eq(t, []string{
		"list default/events", "list deviceclasses", "list devicetaintrules", "list events", "list nodes", "list pods",
		"list pods", "list resourceclaims", "list resourceclaimtemplates", "list resourceslices",
	}, s.server.Asked)
	for _, want := range []string{
		"PCIe tree of gpu-12", "<svg", "default/jobset/llm-405b</b> <span class=\"dim\">3 pods",
	} {
		test.StrContains(t, page, want)
	}
	redacted := s.ok("report", "--redact")
	test.StrContains(t, redacted, "(node 3)")
	test.StrNotContains(t, redacted, "gpu-03")
	test.StrNotContains(t, redacted, "ticket 4711")
	page = s.ok("report", "--tests=rdma-test")
	test.Eq(t, 10, strings.Count(page, "read the test&#39;s result in ConfigMap rdma-test/r"))
	test.StrContains(t, page, "and 2 more results of tests")

	s.server.Forbidden = []string{"resourceclaims", "devicetaintrules", "rdma-test/configmaps"}
	r := s.run("report", "--tests=rdma-test")
	test.Eq(t, exitcode.OK, r.code)
	test.StrContains(t, r.stdout, "Not everything could be read.")
	test.StrContains(t, r.stdout, "list the results of tests: ")
	for _, want := range []string{"resourceclaims is forbidden", "devicetaintrules is forbidden"} {
		test.StrContains(t, r.stdout, want)
		test.StrContains(t, r.stderr, want)
	}
	s.server.Forbidden = []string{"resourceslices"}
	r = s.run("report")
	test.Eq(t, exitcode.Failed, r.code)
	test.Eq(t, "", r.stdout, test.Sprint("half a page"))
	s.server.Forbidden = nil
	r = s.run("report", "--node="+strings.Repeat("a,", 16)+"a")
	test.Eq(t, exitcode.Usage, r.code)
	test.StrContains(t, r.stderr, "name at most 16")
	test.Eq(t, exitcode.Failed, s.run("report", "--node=nobody").code)
}
