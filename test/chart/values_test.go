package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// value is one documented value of values.yaml.
type value struct {
	path      string // "image.tag"
	comment   string
	byDefault string // as YAML flow
}

var valueLine = regexp.MustCompile(`^( *)([A-Za-z]+):`)

// documentedValues reads values.yaml as text: a key below a comment is a value, a key
// without one is a group whose keys are values.
func documentedValues(t *testing.T) []value {
	t.Helper()
	var found []value
	var comment []string
	var group string
	inside := -1 // the indentation of the value that the lines belong to
	for line := range strings.Lines(readFile(t, chartDir+"/values.yaml")) {
		line = strings.TrimRight(line, "\n")
		text := strings.TrimSpace(line)
		indent := len(line) - len(strings.TrimLeft(line, " "))
		switch {
		case text == "":
			comment = nil
		case strings.HasPrefix(text, "#"):
			comment = append(comment, strings.TrimSpace(strings.TrimPrefix(text, "#")))
		case inside >= 0 && (indent > inside || strings.HasPrefix(text, "- ") && indent == inside):
			// part of a value
		default:
			m := valueLine.FindStringSubmatch(line)
			must.NotNil(t, m, must.Sprintf("line %q of values.yaml is not understood", line))
			if indent == 0 {
				group = ""
			}
			path := group + m[2]
			if comment == nil {
				test.Eq(t, 0, indent, test.Sprintf("value %s has no comment", path))
				group, inside = m[2]+".", -1
				continue
			}
			found = append(found, value{path: path, comment: strings.Join(comment, " ")})
			comment, inside = nil, indent
		}
	}
	setDefaults(t, found)
	return found
}

// setDefaults looks the values up in values.yaml as YAML.
func setDefaults(t *testing.T, values []value) {
	t.Helper()
	tree := defaults(t)
	for i, v := range values {
		var node any = tree
		for key := range strings.SplitSeq(v.path, ".") {
			var ok bool
			if node, ok = node.(map[string]any)[key]; !ok {
				t.Fatalf("value %s is not in values.yaml", v.path)
			}
		}
		text, err := json.Marshal(node)
		must.NoError(t, err)
		values[i].byDefault = string(text)
	}
}

func defaults(t *testing.T) map[string]any {
	t.Helper()
	var tree map[string]any
	must.NoError(t, yaml.UnmarshalStrict([]byte(readFile(t, chartDir+"/values.yaml")), &tree))
	return tree
}

// TestTableOfValues: the README has each value with its comment and default.
func TestTableOfValues(t *testing.T) {
	var table strings.Builder
	table.WriteString("| value | default | meaning |\n|---|---|---|\n")
	for _, v := range documentedValues(t) {
		fmt.Fprintf(&table, "| `%s` | `%s` | %s |\n", v.path, v.byDefault, strings.ReplaceAll(v.comment, "|", `\|`))
	}
	golden.Section(t, chartDir+"/README.md", "values", table.String())
}

// schema is what the tests read of a JSON schema.
type schema struct {
	Properties           map[string]schema `json:"properties"`
	AdditionalProperties any               `json:"additionalProperties"`
	Required             []string          `json:"required"`
}

func valuesSchema(t *testing.T) (s schema) {
	t.Helper()
	must.NoError(t, json.Unmarshal([]byte(readFile(t, chartDir+"/values.schema.json")), &s))
	return s
}

// TestSchemaIsComplete: schema and values.yaml have the same keys, and no others are allowed.
func TestSchemaIsComplete(t *testing.T) {
	s := valuesSchema(t)
	delete(s.Properties, "global")  // helm's own
	delete(s.Properties, "testing") // of the tests of the chart
	compare(t, "", s, defaults(t))
	groups := map[string]bool{}
	for _, v := range documentedValues(t) {
		group, _, isIn := strings.Cut(v.path, ".")
		if isIn && !groups[group] {
			groups[group] = true
			compare(t, group, s.Properties[group], defaults(t)[group].(map[string]any))
		}
	}
}

func compare(t *testing.T, where string, s schema, values map[string]any) {
	t.Helper()
	want := slices.Sorted(maps.Keys(values))
	test.Eq(t, want, slices.Sorted(maps.Keys(s.Properties)),
		test.Sprintf("keys of the schema at %q (-values.yaml +schema)", where))
	if s.AdditionalProperties != false {
		t.Errorf("at %q any key is allowed", where)
	}
}

// TestNull: helm drops a default that a user sets to null. What may be empty is empty then; what may not is named.
func TestNull(t *testing.T) {
	s := valuesSchema(t)
	var null, empty, needed, refused []string
	for _, v := range documentedValues(t) {
		group, key, isIn := strings.Cut(v.path, ".")
		required := s.Required
		if isIn {
			required = s.Properties[group].Required
		} else {
			key = v.path
		}
		switch {
		case slices.Contains(required, key):
			needed, refused = append(needed, key), append(refused, v.path+"=null")
		case v.byDefault[0] == '{': // only null makes a map empty
			null, empty = append(null, v.path+"=null"), append(empty, v.path+"=null")
		default:
			null = append(null, v.path+"=null")
			empty = append(empty, v.path+"="+map[byte]string{'"': `""`, '[': "[]"}[v.byDefault[0]])
		}
	}
	if len(null) < 15 || len(needed) < 15 {
		t.Fatalf("these can be dropped: %v, and these not: %v", null, needed)
	}
	out, err := tryRender(t, "--set-json", strings.Join(refused, ","))
	for _, key := range needed {
		if err == nil || !regexp.MustCompile(`missing propert(y|ies) .*'`+key+"'").MatchString(out) {
			t.Errorf("%v: the refusal does not name %s:\n%s", err, key, out)
		}
	}
	args := []string{"--set", "metrics.enabled=true,metrics.serviceMonitor=true", "--set-json"}
	got, want := render(t, append(args, strings.Join(null, ","))...), render(t, append(args, strings.Join(empty, ","))...)
	test.Eq(t, want, got, test.Sprintf("null is another thing than empty %s", diff(want, got)))
}

// TestRefused: a wrong value is an error that names it, before anything is installed.
func TestRefused(t *testing.T) {
	for _, tc := range []struct{ set, want string }{
		{"hookDir=/opt", "additional properties 'hookDir' not allowed"},
		{"hostPaths.hooks=/opt", "additional properties 'hooks' not allowed"},
		{"image.name=x", "additional properties 'name' not allowed"},
		{"admissionPolicy.events=false", "additional properties 'admissionPolicy' not allowed"},
		{"image.pullPolicy=Sometimes", "at '/image/pullPolicy'"},
		{"image.tag=a b", "at '/image/tag'"},
		{"hostPaths.kubelet=/var/lib/kubelet/", "hostPaths.kubelet=/var/lib/kubelet/ ends with a slash: write /var/lib/kubelet"},
		{"hostPaths.deviceInfo=/a/b/", "hostPaths.deviceInfo=/a/b/ ends with a slash: write /a/b"},
		{"hostPaths.hook=/tmp/hook", "hostPaths.hook=/tmp/hook: below /tmp, programs often cannot run"},
		{"hostPaths.hook=/run", "hostPaths.hook=/run: below /run, programs often cannot run"},
		{"hostPaths.hook=/var/run/rdma", "below /var/run"},
		{"hostPaths.kubelet=/", "at '/hostPaths/kubelet'"},
		{"hostPaths.kubelet=kubelet", "at '/hostPaths/kubelet'"},
		{"hostPaths.kubelet=null", "at '/hostPaths': missing property 'kubelet'"},
		{"hostPaths.cdi=", "at '/hostPaths/cdi'"},
		{"hostPaths.hook=opt", "at '/hostPaths/hook'"},
		{"testing.hostRoot=/", "at '/testing/hostRoot'"},
		{"lockedMemory.limit=lots", "at '/lockedMemory/limit'"},
		{"lockedMemory.limit=0", "at '/lockedMemory/limit'"},
		{"lockedMemory.limit=1073741824", "at '/lockedMemory/limit': got number, want string"},
		{"lockedMemory.onDenied=retry", "at '/lockedMemory/onDenied'"},
		{"runtimeCDIEnabled=yes", "at '/runtimeCDIEnabled': got string, want boolean"},
		{"logVerbosity=high", "at '/logVerbosity'"},
		{"seLinuxType=system_u:object_r:x", "at '/seLinuxType'"},
		{"resources.memory=1Gi", "additional properties 'memory' not allowed"},
		{"updateMaxSurge=0", "at '/updateMaxSurge'"},
		{"updateMaxSurge=200%", "at '/updateMaxSurge'"},
		{"nodeSelector.rdma=true", "at '/nodeSelector/rdma': got boolean, want string"},
		{"tolerations[0].effects=NoExecute", "additional properties 'effects' not allowed"},
		{"deviceClasses.extendedResourceName=hca", "at '/deviceClasses/extendedResourceName'"},
		{"claims.status=on", "at '/claims/status'"},
		{"config.rule=x", "additional properties 'rule' not allowed"},
		{"config.apiVersion=rdma.dev/v1alpha1", "additional properties 'apiVersion' not allowed"},
		{"config.memlock=inherit", "at '/config/memlock'"},
		{"config.ipam.roce.subnet=banana", "at '/config/ipam/roce/subnet'"},
		{"config.ipam.roce.subnet=10.0.0.0", "at '/config/ipam/roce/subnet'"},
		{"config.ipam.roce.gateway=router", "at '/config/ipam/roce/gateway'"},
		{"config.ipam.roce.clusterCIDR[0]=pods", "at '/config/ipam/roce/clusterCIDR/0'"},
		{"config.partitioning=1", "at '/config/partitioning'"},
		{"config.mounts[0].containerPath=/a", "missing property 'hostPath'"},
		{"config.mounts[0].hostPath=a", "at '/config/mounts/0/hostPath'"},
		{"config.rules[0].publish=shared", "missing property 'name'"},
		{"config.rules[0].name=a,config.rules[0].publish=everyone", "at '/config/rules/0/publish'"},
		{"config.rules[0].name=a,config.rules[0].shares=0", "at '/config/rules/0/shares'"},
		{"config.rules[0].name=a,config.rules[0].publish=both", "at '/config': missing property 'partitioning'"},
		{"config.partitioning=false,config.rules[0].name=a,config.rules[0].publish=both",
			"at '/config/partitioning': value must be true"},
		{"config.rules[0].name=a,config.rules[0].shares=2", "at '/config/rules/0': missing property 'publish'"},
		{"config.rules[0].name=a,config.rules[0].publish=exclusive,config.rules[0].bandwidth=1G",
			"at '/config/rules/0/publish': value must be one of 'shared', 'both'"},
		{"config.rules[0].name=a,config.rules[0].rail=1,config.rules[0].rails=8",
			"config.rules[0]: rail gives all HCAs one number"},
		{"config.rules[0].name=a,config.rules[1].name=a", `config.rules[1].name: "a" is the name of another rule`},
		{"config.rules[0].name=a,config.rules[0].share=1", "additional properties 'share' not allowed"},
		{"config.rules[0].name=a,config.rules[0].objects=many", "at '/config/rules/0/objects'"},
		{"config.rules[0].name=a,config.rules[0].selectors[0].expression=true", "additional properties 'expression' not allowed"},
		{"config.groups[0].name=a,config.groups[0].publish=shared", "additional properties 'publish' not allowed"},
		{"deviceClasses.extra[0].name=a", "missing property 'selectors'"},
		{"deviceClasses.extra[0].name=A,deviceClasses.extra[0].selectors[0].cel.expression=x", "at '/deviceClasses/extra/0/name'"},
		{"deviceClasses.extra[0].name=a,deviceClasses.extra[0].extendedResourceName=hca", "at '/deviceClasses/extra/0/extendedResourceName'"},
		{"deviceClasses.extra[0].name=a,deviceClasses.extra[0].config.kind=HCAConfig", "additional properties 'kind' not allowed"},
		{"deviceClasses.extra[0].name=a,deviceClasses.extra[0].config.allow.network.modes[0]=bridge", "at '/deviceClasses/extra/0/config/allow/network/modes/0'"},
		{"deviceClasses.extra[0].name=hca.rdma.dev,deviceClasses.extra[0].selectors[0].cel.expression=x", "hca.rdma.dev is a class of the chart"},
		{"deviceClasses.extendedResourceName=rdma/x,deviceClasses.extra[0].name=a,deviceClasses.extra[0].extendedResourceName=rdma/x,deviceClasses.extra[0].selectors[0].cel.expression=x", "rdma/x is the extended resource of another class"},
		{"metrics.enabled=1", "at '/metrics/enabled'"},
		{"metrics.port=1", "additional properties 'port' not allowed"},
		{"metrics.bindAddress=9485", "at '/metrics/bindAddress'"},
		{"metrics.bindAddress=::1:9485", "at '/metrics/bindAddress'"},
		{"metrics.readers[0].name=prometheus", "missing property 'namespace'"},
		{"metrics.serviceMonitor=true", "need metrics.enabled=true"},
		{"metrics.dashboard=true", "need metrics.enabled=true"},
		{"metrics.enabled=true,metrics.serviceMonitor=true,metrics.bindAddress=127.0.0.1:9485", "metrics.bindAddress=127.0.0.1:9485 is an address of the node itself"},
		{"metrics.enabled=true,metrics.serviceMonitor=true,metrics.bindAddress=[::1]:9485",
			"metrics.bindAddress=[::1]:9485 is an address of the node itself"},
		{"network.enabled=true,hostPaths.hook=", "network.enabled=true needs hostPaths.hook"},
		{"hostPaths.cniBin=/opt/cni/bin", "hostPaths.cniBin needs network.enabled=true"},
		{"deviceClasses.create=maybe", "at '/deviceClasses/create': got string, want boolean"},
	} {
		t.Run(tc.set, func(t *testing.T) {
			out, err := tryRender(t, "--set", tc.set)
			must.Error(t, err, must.Sprint("accepted"))
			test.StrContains(t, out, tc.want, test.Sprint("the message does not say"))
		})
	}
}

// TestAccepted: values at the edge of what is refused.
func TestAccepted(t *testing.T) {
	digest := strings.Repeat("0123456789abcdef", 4)
	for _, args := range [][]string{
		{"--set", "image.tag=v1@sha256:" + digest},
		{"--set-string", "lockedMemory.limit=1073741824"},
		{"--set", "lockedMemory.limit=64Ki"},
		{"--set", "lockedMemory.limit=inherit"},
		{"--set", "config.partitioning=true,config.rules[0].name=a,config.rules[0].publish=both,config.rules[0].shares=2"},
		{"--set", "updateMaxSurge=3"},
		{"--set", "updateMaxSurge=100%"},
		{"--set", "deviceClasses.extendedResourceName=rdma/hca"},
		{"--set", "global.registry=x"},
	} {
		if out, err := tryRender(t, args...); err != nil {
			t.Errorf("%v: %s", args, out)
		}
	}
}
