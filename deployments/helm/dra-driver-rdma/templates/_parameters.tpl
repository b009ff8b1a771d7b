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
{{ include "rdma.validateWords" (merge (dict "field" "nodes" "words" (list "verbs" "cm" "mad" "sm")) $in) }}
{{ include "rdma.validateWords" (merge (dict "field" "env" "words" (list "nccl" "nccl-topology" "ucx")) $in) }}
{{ include "rdma.validateLimits" (merge (dict "field" "limits") $in) }}
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

{{/* A limit of locked memory: one of the words, or bytes. */}}
{{- define "rdma.validateMemlock" -}}
- expression: >-
    {{ .in }}.all(s, [s.?{{ .field }}.orValue(null)].all(m, m == null || m in {{ toJson .words }} ||
      {{ include "rdma.wholeNumber" "9223372036854775806" | indent 6 | trim }}))
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
      {{ include "rdma.wholeNumber" "2147483647" | indent 6 | trim }})))
  message: "parameters: {{ .path }}{{ .field }}: want whole numbers from 1 to 2147483647; leave the field out for no limit"
{{- end }}

{{/* Whether m is a whole number from 1 to the given one, as a number or as a quantity: 1.5Gi is one, which
     isInteger() does not know. Beyond 2^53 the driver alone sees the part of a number. */}}
{{- define "rdma.wholeNumber" -}}
type(m) == int && m >= 1 && m <= {{ . }} ||
type(m) == double && m >= 1.0 && m < double({{ . }}) + 1.0 && double(int(m)) == m ||
type(m) == string && isQuantity(m) && [quantity(m)].all(q, q.compareTo(quantity("1")) >= 0 && q.compareTo(quantity("{{ . }}")) <= 0 &&
  (q.asApproximateFloat() >= 9007199254740992.0 || double(int(q.asApproximateFloat())) == q.asApproximateFloat()))
{{- end }}
