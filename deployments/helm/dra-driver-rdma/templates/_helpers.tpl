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

{{/* The service account, and the user name that the API server knows it by. Both from
     one place: a policy for another user than the driver's would never apply. */}}
{{- define "rdma.serviceAccount" -}}
{{ include "rdma.fullname" . }}
{{- end }}
{{- define "rdma.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "rdma.serviceAccount" . }}
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
- --kubelet-dir={{ .Values.kubeletDir }}
{{- end }}
