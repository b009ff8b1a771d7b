package monitoring

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// ruleFile is what the tests read of rules.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Record, Alert, Expr, For string
			Labels, Annotations      map[string]string
		}
	}
}

func rules(t *testing.T) ruleFile {
	t.Helper()
	var f ruleFile
	must.NoError(t, yaml.UnmarshalStrict([]byte(readFile(t, rulesFile)), &f))
	return f
}

// TestRules: promtool takes the rules, and the unit tests hold.
func TestRules(t *testing.T) {
	promtool(t, "", "check", "rules", rulesFile)
	promtool(t, "", "test", "rules", unitTests)
}

// TestAlertsAreTested: each alert has a unit test in which it fires, and says how grave it
// is, what has happened and what that means.
func TestAlertsAreTested(t *testing.T) {
	var units struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string `json:"alertname"`
				ExpAlerts []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	must.NoError(t, yaml.Unmarshal([]byte(readFile(t, unitTests)), &units))
	fires := map[string]bool{}
	for _, u := range units.Tests {
		for _, a := range u.AlertRuleTest {
			fires[a.Alertname] = fires[a.Alertname] || len(a.ExpAlerts) > 0
		}
	}
	for _, g := range rules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			test.True(t, fires[r.Alert], test.Sprintf("no unit test has %s fire", r.Alert))
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s has labels %v and annotations %v", r.Alert, r.Labels, r.Annotations)
			}
		}
	}
}

var placeholder = regexp.MustCompile(`{{ *\$(labels\.)?(\w+)[^}]*}}`)

// TestAlertsInDocs: the documentation has each alert with what it says.
func TestAlertsInDocs(t *testing.T) {
	var table strings.Builder
	table.WriteString("| alert | severity | after | what has happened |\n|---|---|---|---|\n")
	for _, g := range rules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				said := placeholder.ReplaceAllString(r.Annotations["summary"]+". "+r.Annotations["description"], "*$2*")
				wait := r.For
				if wait == "" {
					wait = "at once"
				}
				fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", r.Alert, r.Labels["severity"], wait, said)
			}
		}
	}
	golden.Section(t, alertsDoc, "alerts", table.String())
}

// runbooks is the page that the alerts name; GitHub makes its anchors of the headings, in small letters.
const runbooks = "https://github.com/rdma-dev/dra-driver-rdma/blob/main/docs/reference/alerts.md#"

// TestRunbooks: each alert leads to its own section, which says what to do.
func TestRunbooks(t *testing.T) {
	page := readFile(t, alertsDoc)
	for _, g := range rules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			if got, want := r.Annotations["runbook_url"], runbooks+strings.ToLower(r.Alert); got != want {
				t.Errorf("the runbook of %s is %q, want %q", r.Alert, got, want)
			}
			_, section, _ := strings.Cut(page, "\n## "+r.Alert+"\n")
			if section, _, _ = strings.Cut(section, "\n## "); strings.TrimSpace(section) == "" {
				t.Errorf("%s has no section on %s", alertsDoc, r.Alert)
			}
		}
	}
}

var scrapeConfig = regexp.MustCompile("(?s)```yaml\n(scrape_configs:.*?)```")

// TestScrapeConfigInDocs: the configuration in the documentation is one.
func TestScrapeConfigInDocs(t *testing.T) {
	m := scrapeConfig.FindStringSubmatch(readFile(t, doc))
	must.NotNil(t, m, must.Sprintf("%s has no scrape_configs", doc))
	// Debian's promtool is built without the discovery of Kubernetes.
	text := strings.Replace(m[1], "kubernetes_sd_configs:\n      - role: pod", "static_configs:\n      - targets: [node1]", 1)
	dir := t.TempDir()
	token, config := filepath.Join(dir, "token"), filepath.Join(dir, "prometheus.yml")
	text = strings.Replace(text, "/var/run/secrets/kubernetes.io/serviceaccount/token", token, 1)
	must.NoError(t, os.WriteFile(token, nil, 0o600))
	must.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	promtool(t, "", "check", "config", config)
}

// TestMetricsOfRules: rules and dashboard name no metric that the driver does not have.
func TestMetricsOfRules(t *testing.T) {
	known := readFile(t, listDoc)
	for _, file := range []string{rulesFile, dashboard} {
		for _, name := range regexp.MustCompile(`\brdma_[a-z_0-9]+`).FindAllString(readFile(t, file), -1) {
			base := strings.TrimSuffix(name, "_bucket")
			if !strings.Contains(known, "`"+base+"`") && !strings.Contains(readFile(t, file), ":"+base) {
				t.Errorf("%s names %s, which is not in %s", file, name, listDoc)
			}
		}
	}
}
