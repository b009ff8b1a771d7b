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
{{- if and .Values.network.enabled (not (or .Values.network.moveDevices .Values.network.attachInterfaces)) }}
{{- fail "network.enabled=true needs network.moveDevices or network.attachInterfaces: without both it does nothing" }}
{{- end }}
{{- if and .Values.network.enabled (not .Values.hostPaths.hook) }}
{{- fail "network.enabled=true needs hostPaths.hook: the hook keeps a container from starting without its HCAs and interfaces" }}
{{- end }}
{{- if and .Values.hostPaths.cniBin (not (and .Values.network.enabled .Values.network.attachInterfaces)) }}
{{- fail "hostPaths.cniBin needs network.enabled=true and network.attachInterfaces=true: CNI plugins give addresses to interfaces that the driver attaches" }}
{{- end }}
{{- with .Values.metrics }}
{{- if and (or .service .serviceMonitor) (regexMatch "^(127[.]|localhost:|\\[::1\\])" .bindAddress) }}
{{- fail (printf "metrics.bindAddress=%s is an address of the node itself, where Prometheus cannot reach the drivers by metrics.service or metrics.serviceMonitor: write one such as :9485" .bindAddress) }}
{{- end }}
{{- if and (not .enabled) (or .service .serviceMonitor .prometheusRule) }}
{{- fail "metrics.service, metrics.serviceMonitor and metrics.prometheusRule need metrics.enabled=true" }}
{{- end }}
{{- end }}
{{- end }}
