package prometheus

import (
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"sigs.k8s.io/yaml"
)

// Dashboard is what a dashboard of Grafana asks of Prometheus.
type Dashboard struct {
	Queries []string // of its panels
	labels  []string // of its variables
}

// ReadDashboard reads a dashboard from its file.
func ReadDashboard(t testing.TB, path string) Dashboard {
	t.Helper()
	data, err := os.ReadFile(path)
	must.NoError(t, err)
	var board any
	must.NoError(t, json.Unmarshal(data, &board), must.Sprintf("parse %s", path))
	variables := slices.DeleteFunc(found(board, "query"), func(q string) bool { return !strings.HasPrefix(q, "label_values") })
	return Dashboard{found(board, "expr"), variables}
}

// found returns all values of a key in a JSON document, each once.
func found(node any, key string) []string {
	var out []string
	switch node := node.(type) {
	case map[string]any:
		for k, v := range node {
			if s, ok := v.(string); ok && k == key {
				out = append(out, s)
			}
			out = append(out, found(v, key)...)
		}
	case []any:
		for _, v := range node {
			out = append(out, found(v, key)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ReadRecords returns the names of the series that a file of rules records.
func ReadRecords(t testing.TB, path string) (records []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must.NoError(t, err)
	var file struct {
		Groups []struct{ Rules []struct{ Record string } }
	}
	must.NoError(t, yaml.Unmarshal(data, &file), must.Sprintf("parse %s", path))
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				records = append(records, r.Record)
			}
		}
	}
	return records
}

// asUser sets the variables of a dashboard, and Grafana's own, as a user would.
func asUser(query string, interval time.Duration) string {
	return strings.NewReplacer("$instance", ".*", "$device", ".*", "$__rate_interval", interval.String()).Replace(query)
}

// Unanswered returns the queries of a dashboard for which there is no data now. The
// interval is what Grafana takes rates over.
func (s *Server) Unanswered(queries []string, interval time.Duration) (left []string, err error) {
	for _, q := range queries {
		numbers, asked := s.Data(asUser(q, interval))
		err = errors.Join(err, asked)
		if len(numbers) == 0 {
			left = append(left, q)
		}
	}
	return left, err
}

var labelValues = regexp.MustCompile(`^label_values\((.*), *(\w+)\)$`)

// CheckVariables runs the queries of a dashboard's variables: each has values to choose.
func (s *Server) CheckVariables(t testing.TB, d Dashboard) {
	t.Helper()
	test.NotEq(t, 0, len(d.labels), test.Sprint("the dashboard has no variables"))
	for _, q := range d.labels {
		m := labelValues.FindStringSubmatch(asUser(q, time.Minute))
		must.NotNil(t, m, must.Sprintf("query %q is not understood", q))
		var values []string
		if err := s.Get("/api/v1/label/"+m[2]+"/values", url.Values{"match[]": {m[1]}}, &values); err != nil || len(values) == 0 {
			t.Errorf("%s: values %v, %v", q, values, err)
		}
	}
}

// CheckRules has Prometheus say that it could evaluate each rule.
func (s *Server) CheckRules(t testing.TB) {
	t.Helper()
	var answer struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	must.NoError(t, s.Get("/api/v1/rules", nil, &answer))
	for _, g := range answer.Groups {
		for _, r := range g.Rules {
			test.Eq(t, "ok", r.Health, test.Sprintf("rule %s is %s: %s", r.Name, r.Health, r.LastError))
		}
	}
}
