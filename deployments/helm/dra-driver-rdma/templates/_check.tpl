{{/* What the schema of the values cannot say, or not in words: each refusal names the value and the remedy. */}}
{{- define "rdma.check" }}
{{- range $name, $path := .Values.hostPaths }}
{{- if and $path (hasSuffix "/" $path) }}
{{- fail (printf "hostPaths.%s=%s ends with a slash: write %s" $name $path (trimSuffix "/" $path)) }}
{{- end }}
{{- end }}
{{- range list "/run" "/var/run" "/tmp" "/var/tmp" "/dev" "/proc" "/sys" }}
{{- if hasPrefix (printf "%s/" .) (printf "%s/" ($.Values.hostPaths.hook | default "")) }}
{{- fail (printf "hostPaths.hook=%s: below %s, programs often cannot run, and are gone after a reboot. Without the hook, containers with HCAs do not start. Write a directory such as /opt/rdma.dev/bin, or \"\" for no hook" $.Values.hostPaths.hook .) }}
{{- end }}
{{- end }}
{{- if and .Values.network.enabled (not .Values.hostPaths.hook) }}
{{- fail "network.enabled=true needs hostPaths.hook: the hook keeps a container from starting without its HCAs and interfaces" }}
{{- end }}
{{- if and .Values.hostPaths.cniBin (not .Values.network.enabled) }}
{{- fail "hostPaths.cniBin needs network.enabled=true: CNI plugins give addresses to interfaces that the driver attaches" }}
{{- end }}
{{- with .Values.metrics }}
{{- if and .serviceMonitor (include "rdma.metricsLoopback" $) }}
{{- fail (printf "metrics.bindAddress=%s is an address of the node itself, where Prometheus cannot reach the drivers by metrics.serviceMonitor: write one such as :9485" .bindAddress) }}
{{- end }}
{{- if and (not .enabled) (or .serviceMonitor .prometheusRule .dashboard) }}
{{- fail "metrics.serviceMonitor, metrics.prometheusRule and metrics.dashboard need metrics.enabled=true" }}
{{- end }}
{{- end }}
{{- $names := dict }}
{{- range $i, $rule := (.Values.config | default dict).rules }}
{{- if and (hasKey $rule "rail") (hasKey $rule "rails") }}
{{- fail (printf "config.rules[%d]: rail gives all HCAs one number, rails numbers the cards: set one of them" $i) }}
{{- end }}
{{- if hasKey $names $rule.name }}
{{- fail (printf "config.rules[%d].name: %q is the name of another rule" $i $rule.name) }}
{{- end }}
{{- $_ := set $names $rule.name true }}
{{- end }}
{{- end }}
