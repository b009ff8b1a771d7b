package inspect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// What somebody may write where an object has a text: lines that look like ours, and characters that move a cursor,
// hide, or change the direction of text.
const (
	forgedLines = "so\nFORGED Pod default/trainer is Running: it has its devices.\r\n\nFound:\n  - FORGED\u2028FORGED\u2029FORGED" +
		"\u0085FORGED\u202e\u2066\u200b\u3164\x1b[2J\x1b]0;FORGED\x07\u009b1m \"FORGED\". FORGED \xff"
	forgedName = "\nFORGED is fine\r\x1b[31m\u202e\u2028FORGED"
)

// forgery changes the texts of objects.
type forgery struct {
	name string
	text func(field, value string) string
	// quoted: what it writes are messages, which stand in quotes wherever we repeat them.
	quoted bool
}

// messages are the fields that somebody writes for people.
var messages = []string{"Message", "Note", "Action"}

func forgeries(names map[string]bool) []forgery {
	message := forgedLines + strings.Repeat(" pad", 5000)
	in := func(fields ...string) func(string, string) string {
		return func(field, value string) string {
			if slices.Contains(fields, field) {
				return value + message
			}
			return value
		}
	}
	return []forgery{
		{"messages", in(messages...), true},
		{"reasons", in(append(messages, "Reason", "Signal", "Image", "ImageID", "ContainerID")...), false},
		{"selectors", func(field, value string) string {
			if field == "Expression" {
				return value + " &&\n\n'FORGED Pod default/trainer is Running\u202e' !=\n''"
			}
			return value
		}, true},
		{"broken selectors", func(field, value string) string {
			if field == "Expression" {
				return value + " &&\nFORGED is\n\nFound:\n  - FORGED"
			}
			return value
		}, true},
		{"names", func(field, value string) string {
			if names[value] {
				return value + forgedName
			}
			return value
		}, false},
		{"empty fields", func(field, value string) string {
			// An empty one of these means something else than an unknown text does.
			if value == "" && !slices.Contains([]string{"NodeName", "Phase", "Namespace", "Driver", "Pool", "Device", "Effect",
				"APIGroup", "Operator", "NominatedNodeName", "UID", "DeviceClassName", "AllocationMode"}, field) {
				return message
			}
			return value
		}, false},
	}
}

// forge changes every text of a value.
func forge(v reflect.Value, field string, change func(field, value string) string) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(change(field, v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			forge(v.Elem(), field, change)
		}
	case reflect.Struct:
		if v.Type().PkgPath() == "k8s.io/apimachinery/pkg/api/resource" {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				forge(v.Field(i), v.Type().Field(i).Name, change)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			forge(v.Index(i), field, change)
		}
	case reflect.Map:
		forged := reflect.MakeMap(v.Type())
		for it := v.MapRange(); it.Next(); {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.Set(it.Key())
			value.Set(it.Value())
			forge(value, field, change)
			forged.SetMapIndex(key, value)
		}
		if v.Len() > 0 && v.CanSet() {
			v.Set(forged)
		}
	}
}

// namesOf returns the names in objects. Objects refer to each other by them.
func namesOf(objects ...any) map[string]bool {
	names := map[string]bool{}
	for _, o := range objects {
		forge(reflect.ValueOf(o), "", func(field, value string) string {
			if slices.Contains([]string{"Name", "GenerateName", "StringValue", "PoolName", "CounterSet"}, field) {
				names[value] = true
			}
			return value
		})
	}
	for _, word := range []string{"", rdma.Domain, fleet.GPUDriver, "dra-driver-rdma", "ib", "roce", "efa", "ethernet", "pf", "vf",
		"sf"} { // the words of the driver, the chart and its classes
		delete(names, word)
	}
	return names
}

// checkForged checks a text for people: nothing of others begins a line, acts on a terminal, or is without bounds.
func checkForged(t *testing.T, what, shown string, quoted bool) {
	t.Helper()
	test.True(t, text.Clean(shown), test.Sprintf("%s: the text acts on a terminal: %q", what, shown))
	for line := range strings.Lines(shown) {
		switch start := strings.TrimLeft(line, " -\t|"); {
		case strings.HasPrefix(start, "FORGED"), strings.HasPrefix(start, `\n`):
			t.Errorf("%s: somebody else's words begin a line: %.200q", what, line)
		case len(line) > 20_000:
			t.Errorf("%s: a line has %d bytes: %.200q", what, len(line), line)
		}
		for at, rest := 0, line; quoted; {
			i := strings.Index(rest, "FORGED")
			if i < 0 {
				break
			}
			if at += i; strings.Count(line[:at], `"`)%2 == 0 {
				t.Errorf("%s: somebody else's words are not in quotes: %.300q", what, line[max(0, at-150):])
				break
			}
			at, rest = at+len("FORGED"), rest[i+len("FORGED"):]
		}
	}
}

// TestForgedWhy: whatever the objects of a cluster say, the explanation of a pod is in our words.
func TestForgedWhy(t *testing.T) {
	for _, s := range scenarios(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			whole := s.cluster(t)
			for _, f := range forgeries(namesOf(whole, &s.Question)) {
				c, q := clone(t, whole), clone(t, &s.Question)
				if !f.quoted {
					c.Unread = append(c.Unread, model.Unread{Kind: model.Pods, Why: "pods is forbidden: " + forgedLines})
				}
				ctx, stop := context.WithCancel(t.Context())
				if f.name != "names" {
					stop() // a search for changes that would help takes time, and repeats names only
				}
				forge(reflect.ValueOf(c), "", f.text)
				forge(reflect.ValueOf(q), "", f.text)
				answer, err := why.Explain(ctx, c, *q)
				stop()
				if err != nil {
					checkForged(t, f.name+": error", text.Message(err.Error()), f.quoted)
					continue
				}
				for _, all := range []bool{false, true} {
					var text bytes.Buffer
					must.NoError(t, answer.WriteText(&text, all))
					checkForged(t, f.name, text.String(), f.quoted)
				}
			}
		})
	}
}

// clone copies what an API server sends.
func clone[T any](t *testing.T, v *T) *T {
	t.Helper()
	data, err := json.Marshal(v)
	must.NoError(t, err)
	out := new(T)
	must.NoError(t, json.Unmarshal(data, out))
	return out
}

// TestForgedTables: the same for all lists.
func TestForgedTables(t *testing.T) {
	for name, whole := range map[string]*model.Cluster{"mixed": mixedCluster(t), "jobs": jobsCluster(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, f := range forgeries(namesOf(whole)) {
				c := clone(t, whole)
				forge(reflect.ValueOf(c), "", f.text)
				tables, err := allTables(t, c)
				if err != nil {
					tables += text.Message(err.Error())
				}
				checkForged(t, f.name, tables, f.quoted)
			}
		})
	}
}

func allTables(t *testing.T, c *model.Cluster) (string, error) {
	t.Helper()
	var text bytes.Buffer
	for _, wide := range []bool{false, true} {
		pods := lists.Pods(t.Context(), c)
		text.Write(printed(t, lists.PodTable(pods, wide, wide), wide))
		text.Write(printed(t, lists.ClaimTable(lists.Claims(t.Context(), c), wide, time.Time{}), wide))
		nodes, err := lists.Nodes(t.Context(), c)
		if err != nil {
			return text.String(), err
		}
		text.Write(printed(t, lists.NodeTable(nodes), wide))
		devices, err := lists.Devices(t.Context(), c, lists.DeviceFilter{})
		if err != nil {
			return text.String(), err
		}
		text.Write(printed(t, lists.DeviceTable(devices), wide))
	}
	pictures, err := lists.Topologies(t.Context(), c, model.NodeChoice{})
	for _, p := range pictures {
		must.NoError(t, p.WriteTree(&text, topology.BoxLines))
	}
	return text.String(), err
}

// TestForgedIsForged: the forgeries reach the outputs. A test that changes nothing would find nothing.
func TestForgedIsForged(t *testing.T) {
	whole := jobsCluster(t)
	for _, f := range forgeries(namesOf(whole)) {
		c := clone(t, whole)
		forge(reflect.ValueOf(c), "", f.text)
		before, after := fmt.Sprintf("%+v", *clone(t, whole)), fmt.Sprintf("%+v", *c)
		test.NotEq(t, after, before, test.Sprintf("%s: nothing is forged", f.name))
		text, _ := allTables(t, c)
		if shows := strings.Contains(text, "FORGED"); !shows && f.name == "names" {
			t.Errorf("%s: no table shows one", f.name)
		}
	}
}
