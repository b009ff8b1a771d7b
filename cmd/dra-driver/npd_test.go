package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
)

// npdConfig is the file of a custom plugin monitor of Node Problem Detector, with the fields and the rules of its
// documentation (docs/custom_plugin_monitor.md, pkg/custompluginmonitor/types). Its Go module is not in the Go proxy.
type npdConfig struct {
	Plugin       string `json:"plugin"`
	PluginConfig struct {
		InvokeInterval npdDuration `json:"invoke_interval"`
		Timeout        npdDuration `json:"timeout"`
		MaxOutput      int         `json:"max_output_length"`
		Concurrency    int         `json:"concurrency"`
		ByMessage      bool        `json:"enable_message_change_based_condition_update"`
	} `json:"pluginConfig"`
	Source     string         `json:"source"`
	Metrics    bool           `json:"metricsReporting"`
	Conditions []npdCondition `json:"conditions"`
	Rules      []npdRule      `json:"rules"`
}

type npdCondition struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type npdRule struct {
	Type      string      `json:"type"`
	Condition string      `json:"condition"`
	Reason    string      `json:"reason"`
	Path      string      `json:"path"`
	Args      []string    `json:"args"`
	Timeout   npdDuration `json:"timeout"`
}

type npdDuration time.Duration

func (d *npdDuration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = npdDuration(parsed)
	return err
}

// npdBuffer is how much Node Problem Detector reads of the output of a plugin.
const npdBuffer = 4 << 10

// TestNodeProblemDetector: the ready configuration is valid for a custom plugin monitor. Its command ends as Node
// Problem Detector expects: 0 for well, 1 for a problem, more for not known. What Node Problem Detector keeps of the
// output begins with the message.
func TestNodeProblemDetector(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "deployments", "node-problem-detector", "rdma.json"))
	must.NoError(t, err)
	var c npdConfig
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	must.NoError(t, strict.Decode(&c))
	if c.Plugin != "custom" || c.Source == "" || len(c.Rules) != 1 || c.PluginConfig.Concurrency < 1 {
		t.Fatalf("the monitor is %+v", c)
	}
	rule := c.Rules[0]
	isDefault := func(p npdCondition) bool { return p.Type == rule.Condition && p.Reason != rule.Reason }
	if !slices.ContainsFunc(c.Conditions, isDefault) || rule.Type != "permanent" {
		t.Errorf("rule %+v has no default condition in %+v", rule, c.Conditions)
	}
	if rule.Timeout > c.PluginConfig.Timeout || c.PluginConfig.Timeout > c.PluginConfig.InvokeInterval ||
		c.PluginConfig.MaxOutput > npdBuffer {
		t.Errorf("times or sizes exceed their bounds: %+v", c)
	}
	n := drivertest.NewNode(t, "hgx-h100")
	ask := func(want int, verdict string) {
		t.Helper()
		code, stdout, _ := invoke(t, nil, append(slices.Clone(rule.Args), "--kubelet-dir", n.Dir)...)
		kept := stdout[:min(len(stdout), c.PluginConfig.MaxOutput)]
		if code != want || !strings.HasPrefix(kept, `{"message":"`) || !strings.Contains(kept, verdict) {
			t.Errorf("exit code %d, want %d with %q; the output begins with %s", code, want, verdict, kept)
		}
	}
	ask(3, `"verdict":"unknown"`)
	rdmatest.SetPort(t, n.Root, "mlx5_0", "1: DOWN", "3: Disabled")
	n.Start(t, podUID)
	ask(1, `"verdict":"sick"`)
}
