{{/* The driver's name: what a claim's allocation and the kubelet's directories say. */}}
{{- define "rdma.driver" -}}
rdma.dev
{{- end }}

{{/* Name of the chart's objects. */}}
{{- define "rdma.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride }}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{/* The service account, its user name, and a CEL expression: whether the request comes from it. All from one place: a policy for
     another user than the driver's would never apply. In any namespace, since kustomize and Flux change the namespace of
     objects, and not of expressions. A driver asks whether the policies bind it (docs/security.md). */}}
{{- define "rdma.serviceAccount" -}}
{{ include "rdma.fullname" . }}
{{- end }}
{{- define "rdma.account" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "rdma.serviceAccount" . }}
{{- end }}
{{- define "rdma.isDriver" -}}
request.userInfo.username.matches("^system:serviceaccount:[^:]+:{{ include "rdma.serviceAccount" . | replace "." "[.]" }}$")
{{- end }}

{{- define "rdma.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rdma.labels" -}}
{{ include "rdma.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "rdma.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The command of a probe: calls over the sockets that the kubelet uses. */}}
{{- define "rdma.probe" -}}
- /usr/bin/dra-driver
- probe
- --kubelet-dir={{ .Values.hostPaths.kubelet }}
{{- end }}

{{/* A CEL expression: whether opaque parameters of the driver, given as a CEL
     expression, give out nodes of the fabric's management interface. It looks at every
     place where nodes can stand, whatever the kind. A value of another type is passed
     over, as the driver refuses it. */}}
{{- define "rdma.privilegedParameters" -}}
[dyn({{ . }})].exists(p, [p, p.?allow.orValue({}), p.?defaults.orValue({})].exists(s,
  type(s) == map && type(s.?nodes.orValue([])) == list && s.?nodes.orValue([]).exists(n, n in ["mad", "sm"])
))
{{- end }}

{{/* A CEL expression: whether the object's namespace may use privileged classes. */}}
{{- define "rdma.privilegedNamespace" -}}
namespaceObject.metadata.?labels[?"rdma.dev/privileged-classes"].orValue("") == "true"
{{- end }}

{{/* A CEL expression: the remedy, for the end of a message. */}}
{{- define "rdma.privilegedRemedy" -}}
"namespace " + namespaceObject.metadata.name +
" lacks the label rdma.dev/privileged-classes=true. Use another DeviceClass, such as hca.rdma.dev, or ask an administrator for: " +
"kubectl label namespace " + namespaceObject.metadata.name + " rdma.dev/privileged-classes=true"
{{- end }}

{{/* A CEL expression over the variables stored and before: an object gets no finalizer that
     it has not had before. An administrator's stay. */}}
{{- define "rdma.noFinalizers" -}}
variables.stored.all(o, o.metadata.?finalizers.orValue([]).all(f,
  variables.before.exists(b, f in b.metadata.?finalizers.orValue([]))))
{{- end }}

{{/* The binding of a policy to everything it matches; takes the root context and a name. */}}
{{- define "rdma.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "rdma.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end }}

{{/* The port of the metrics. */}}
{{- define "rdma.metricsPort" -}}
{{- regexFind "[0-9]+$" .Values.metrics.bindAddress -}}
{{- end }}

{{/* Whether only the node itself reaches the metrics. */}}
{{- define "rdma.metricsLoopback" -}}
{{- if regexMatch "^(127[.]|localhost:|\\[::1\\])" .Values.metrics.bindAddress }}true{{ end -}}
{{- end }}

{{/* The service account for the ServiceMonitor, and the Secret with its token. */}}
{{- define "rdma.scraper" -}}
{{ include "rdma.fullname" . | trunc 55 | trimSuffix "-" }}-scraper
{{- end }}

{{/* The directory with the host's sys and dev. Only tests set it: it is in no table of values. */}}
{{- define "rdma.hostRoot" -}}
{{- with .Values.testing }}{{ .hostRoot }}{{ end -}}
{{- end }}
