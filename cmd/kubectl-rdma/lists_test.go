package main

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
)

// TestSortBy: the help of a command has the keys that a shell completes.
func TestSortBy(t *testing.T) {
	s := newSession(t, fleet.New(t))
	for _, c := range newRoot(genericiooptions.NewTestIOStreamsDiscard()).Commands() {
		flag := c.Flag("sort-by")
		if flag == nil {
			continue
		}
		keys := s.run("__complete", c.Name(), "--sort-by", "").stdout
		for key := range strings.Lines(keys) {
			if key = strings.TrimSpace(key); !strings.HasPrefix(key, ":") && !strings.Contains(flag.Usage, key) {
				t.Errorf("the help of %s --sort-by lacks %q: %s", c.Name(), key, flag.Usage)
			}
		}
	}
}

// TestFormatsEverywhere: each command that prints a result has -o json and yaml. A bundle is an archive, a report a
// page, and rails writes manifests.
func TestFormatsEverywhere(t *testing.T) {
	for _, c := range newRoot(genericiooptions.NewTestIOStreamsDiscard()).Commands() {
		if c.HasSubCommands() {
			c = c.Commands()[0]
		}
		output := c.Flag("output")
		has := func(format string) bool { return output != nil && strings.Contains(output.Usage, format) }
		if !slices.Contains([]string{"bundle", "rails", "report", "version"}, c.Name()) && !(has("json") && has("yaml")) {
			t.Errorf("kubectl rdma %s has no -o json and yaml", c.Name())
		}
	}
}
