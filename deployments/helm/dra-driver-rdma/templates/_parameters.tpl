{{/* Validations of the kind of the parameters, and of the names of their fields. */}}
{{- define "rdma.validateKind" -}}
- expression: >-
    variables.parameters.all(p, type(p) == map && p.?apiVersion.orValue("") == "rdma.dev/v1alpha1" && p.?kind.orValue("") == {{ .kind | quote }})
  message: "parameters of driver rdma.dev: want apiVersion rdma.dev/v1alpha1 and kind {{ .kind }}; {{ .remedy }}"
{{ include "rdma.validateFields" (dict "in" "variables.parameters" "path" "" "fields" (concat (list "apiVersion" "kind") .fields)) }}
{{- end }}

{{/* Validations of the settings in variables.settings; takes the path before them. */}}
{{- define "rdma.validateSettings" -}}
{{- $in := dict "in" "variables.settings" "path" . }}
{{- include "rdma.validateMemlock" (merge (dict "field" "memlock" "words" (list "unlimited" "inherit")) $in) }}
{{ include "rdma.validateWords" (merge (dict "field" "nodes" "words" (list "verbs" "cm" "psm" "mad" "sm")) $in) }}
{{ include "rdma.validateWords" (merge (dict "field" "env" "words" (list "libfabric" "libfabric-gid-index" "nccl" "nccl-gid-index" "nccl-topology" "nvshmem" "nvshmem-gid-index" "ucx" "ucx-gid-index" "vllm")) $in) }}
{{ include "rdma.validateWord" (merge (dict "field" "onUnusable" "words" (list "warn" "fail" "ignore")) $in) }}
{{ include "rdma.validateMark" (merge (dict "field" "trafficClass" "most" "255") $in) }}
{{ include "rdma.validateMark" (merge (dict "field" "serviceLevel" "most" "15") $in) }}
{{ include "rdma.validateLimits" (merge (dict "field" "limits") $in) }}
{{ include "rdma.validateNetwork" . }}
{{- end }}

{{- define "rdma.validateFields" -}}
- expression: >-
    {{ .in }}.all(s, type(s) != map || s.all(f, f in {{ toJson .fields }}))
  messageExpression: >-
    "parameters: unknown field {{ .path }}" + {{ .in }}.filter(s, type(s) == map && s.exists(f, !(f in {{ toJson .fields }})))[0].filter(f, !(f in {{ toJson .fields }}))[0] +
    ", want one of {{ join ", " .fields }}"
{{- end }}

{{/* A list of words, each once. */}}
{{- define "rdma.validateWords" -}}
- expression: >-
    {{ .in }}.all(s, s.?{{ .field }}.orValue(null) == null || type(s.{{ .field }}) == list &&
      s.{{ .field }}.all(w, w in {{ toJson .words }} && s.{{ .field }}.filter(x, x == w).size() == 1))
  message: "parameters: {{ .path }}{{ .field }}: want a list of {{ join ", " .words }}, each at most once"
{{- end }}

{{/* One word. */}}
{{- define "rdma.validateWord" -}}
- expression: >-
    {{ .in }}.all(s, s.?{{ .field }}.orValue(null) == null || s.{{ .field }} in {{ toJson (append .words "") }})
  message: "parameters: {{ .path }}{{ .field }}: want {{ join ", " .words }}"
{{- end }}

{{/* A mark of packets, and a list of marks, each once. */}}
{{- define "rdma.validateMark" -}}
- expression: >-
    {{ .in }}.all(s, [s.?{{ .field }}.orValue(null)].all(m, m == null || type(m) == int && m >= 0 && m <= {{ .most }}))
  message: "parameters: {{ .path }}{{ .field }}: want 0 to {{ .most }}"
{{- end }}

{{- define "rdma.validateMarks" -}}
- expression: >-
    {{ .in }}.all(s, [s.?{{ .field }}.orValue(null)].all(l, l == null || type(l) == list && l.size() <= {{ .most }} + 1 &&
      l.all(m, type(m) == int && m >= 0 && m <= {{ .most }} && l.filter(x, x == m).size() == 1)))
  message: "parameters: {{ .path }}{{ .field }}: want a list of 0 to {{ .most }}, each at most once"
{{- end }}

{{/* The default of a class in variables.pairs, which must be in the list of what the class allows. */}}
{{- define "rdma.validateMarkWithin" -}}
- expression: >-
    variables.pairs.all(p, type(p[1].?{{ .field }}.orValue(null)) != int ||
      p[1].{{ .field }} in (type(p[0].?{{ .by }}.orValue(null)) == list ? p[0].{{ .by }} : []))
  message: "parameters: defaults.{{ .field }}: more than allow.{{ .by }} allows, which is none where it is not set"
{{- end }}

{{/* A limit of locked memory: one of the words, or bytes. */}}
{{- define "rdma.validateMemlock" -}}
- expression: >-
    {{ .in }}.all(s, [s.?{{ .field }}.orValue(null)].all(m, m == null || m in {{ toJson .words }} ||
      {{ include "rdma.wholeNumber" (dict "max" "9223372036854775806" "text" (include "rdma.sizeText" .)) | indent 6 | trim }}))
  message: "parameters: {{ .path }}{{ .field }}: want {{ join ", " .words }} or a positive whole number of bytes such as 4Gi"
{{- end }}

{{/* Limits of the rdma cgroup; the highest is the kernel's. */}}
{{- define "rdma.validateLimits" -}}
- expression: >-
    {{ .in }}.all(s, [s.?{{ .field }}.orValue(null)].all(l, l == null || type(l) == map))
  message: "parameters: {{ .path }}{{ .field }}: want an object with handles and objects"
{{ include "rdma.validateFields" (dict "in" (printf "%s.map(s, s.?%s.orValue(null)).filter(l, type(l) == map)" .in .field) "path" (printf "%s%s." .path .field) "fields" (list "handles" "objects")) }}
- expression: >-
    {{ .in }}.map(s, s.?{{ .field }}.orValue(null)).filter(l, type(l) == map).all(l, l.all(k, [l[k]].all(m, m == null ||
      {{ include "rdma.wholeNumber" (dict "max" "2147483647" "text" "m") | indent 6 | trim }})))
  message: "parameters: {{ .path }}{{ .field }}: want whole numbers from 1 to 2147483647; leave the field out for no limit"
{{- end }}

{{/* The network in variables.settings, and its parts; takes the path before it. */}}
{{- define "rdma.validateNetwork" -}}
{{- $networks := "variables.settings.map(s, s.?network.orValue(null)).filter(n, type(n) == map)" }}
{{- $path := printf "%snetwork." . }}
{{- include "rdma.validateObject" (dict "in" "variables.settings" "path" . "field" "network" "fields" (list "mode" "vlan" "interface" "addresses" "ipam" "mtu" "gateways" "routes")) }}
- expression: >-
    {{ $networks }}.all(n, [n.?mode.orValue(null)].all(m, m == null || m in ["", "none", "move", "macvlan", "ipvlan"]))
  message: "parameters: {{ $path }}mode: want none, move, macvlan or ipvlan"
- expression: >-
    {{ $networks }}.all(n, [n.?interface.orValue(null)].all(i, i == null || type(i) == string &&
      i.matches("^[A-Za-z0-9._-]{0,15}$") && !(i in [".", "..", "lo", "eth0", "all", "default"]) && !i.startsWith("_rdma")))
  message: "parameters: {{ $path }}interface: want a name of an interface that the pod does not have: up to 15 letters, digits and . _ -"
- expression: >-
    {{ $networks }}.all(n, [n.?vlan.orValue(null)].all(v, v == null || type(v) == int && v >= 1 && v <= 4094))
  message: "parameters: {{ $path }}vlan: want 1 to 4094"
- expression: >-
    {{ $networks }}.all(n, [n.?mtu.orValue(null)].all(m, m == null || type(m) == int && m >= 68 && m <= 65535))
  message: "parameters: {{ $path }}mtu: want 68 to 65535"
- expression: >-
    {{ $networks }}.all(n, [n.?ipam.orValue(null)].all(i, i == null || type(i) == string))
  message: "parameters: {{ $path }}ipam: want the name of an entry of ipam in the policy"
{{ include "rdma.validatePrefixes" (dict "in" $networks "path" $path "field" "addresses" "most" "16") }}
- expression: >-
    {{ $networks }}.all(n, n.?ipam.orValue("") == "" || n.ipam == null || n.?addresses.orValue(null) == null || type(n.addresses) == list && n.addresses.size() == 0)
  message: "parameters: {{ $path }}ipam: addresses are given already: want one of the two"
- expression: >-
    {{ $networks }}.all(n, [n.?gateways.orValue(null)].all(l, l == null || type(l) == list && l.all(g, type(g) == string && isIP(g) &&
      l.filter(x, type(x) == string && isIP(x) && ip(x).family() == ip(g).family()).size() == 1)))
  message: "parameters: {{ $path }}gateways: want IP addresses such as 10.1.2.1, at most one of each family"
- expression: >-
    {{ $networks }}.all(n, [n.?routes.orValue(null)].all(l, l == null || type(l) == list && l.size() <= 32 && l.all(r, type(r) == map &&
      r.all(f, f in ["destination", "gateway"]) && [r.?destination.orValue(null)].all(d, type(d) == string && isCIDR(d) && cidr(d) == cidr(d).masked() &&
        [r.?gateway.orValue(null)].all(g, g == null || g == "" || type(g) == string && isIP(g) && ip(g).family() == cidr(d).ip().family())))))
  message: "parameters: {{ $path }}routes: want at most 32 of a destination such as 10.2.0.0/16, without bits beyond its length, and a gateway of its family"
{{- end }}

{{/* A field that is an object of those fields. */}}
{{- define "rdma.validateObject" -}}
- expression: >-
    {{ .in }}.all(s, [s.?{{ .field }}.orValue(null)].all(o, o == null || type(o) == map))
  message: "parameters: {{ .path }}{{ .field }}: want an object with {{ join ", " .fields }}"
{{ include "rdma.validateFields" (dict "in" (printf "%s.map(s, s.?%s.orValue(null)).filter(o, type(o) == map)" .in .field) "path" (printf "%s%s." .path .field) "fields" .fields) }}
{{ end }}

{{/* A list of addresses or networks, each with its length, each once. */}}
{{- define "rdma.validatePrefixes" -}}
- expression: >-
    {{ .in }}.all(s, [s.?{{ .field }}.orValue(null)].all(l, l == null || type(l) == list && l.size() <= {{ .most }} &&
      l.all(a, type(a) == string && isCIDR(a) && l.filter(x, x == a).size() == 1)))
  message: "parameters: {{ .path }}{{ .field }}: want at most {{ .most }} IP addresses with the length of their network, such as 10.1.2.3/24, each once"
{{- end }}

{{/* Whether m is a whole number from 1 to the given one, as a number or as a quantity: 1.5Gi is one, which
     isInteger() does not know. text is the quantity of a string. Beyond 2^53 the driver alone sees the part of a number. */}}
{{- define "rdma.wholeNumber" -}}
type(m) == int && m >= 1 && m <= {{ .max }} ||
type(m) == double && m >= 1.0 && m < double({{ .max }}) + 1.0 && double(int(m)) == m ||
type(m) == string && [{{ .text }}].all(t, isQuantity(t) && [quantity(t)].all(q, q.compareTo(quantity("1")) >= 0 && q.compareTo(quantity("{{ .max }}")) <= 0 &&
  (q.asApproximateFloat() >= 9007199254740992.0 || double(int(q.asApproximateFloat())) == q.asApproximateFloat())))
{{- end }}

{{/* The quantity of a size m of locked memory: podman's 4g and 4GB are 4Gi. m, u and n are no suffixes of Kubernetes
     here: 64m is 64Mi. */}}
{{- define "rdma.sizeText" -}}
isQuantity(m) && !m.matches("[mun]$") ? m :
  m.matches("^[+]?[0-9.]+[bB]$") ? m.substring(0, m.size() - 1) :
  m.matches("^[+]?[0-9.]+[kmgtpKMGTP][iI]?[bB]?$") ? m.upperAscii().replace("B", "").replace("I", "") + "i" : ""
{{- end }}
