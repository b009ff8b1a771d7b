package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// configs are the configuration files below the state directory.
var configs = map[string]string{
	"config/containerd.toml": `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]
imports = []
[grpc]
  address = "{{.Socket}}"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{{.Pause}}"
[plugins.'io.containerd.cri.v1.runtime']
  # Without CAP_SYS_RESOURCE no process may lower its OOM score, and every pod
  # sandbox would fail.
  restrict_oom_score_adj = {{.RestrictOOM}}
  # Loading a profile would change the host's kernel.
  disable_apparmor = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = "{{.Runc}}"
      SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{{.CNI}}", "/opt/cni/bin"]
    conf_dir = "{{.CNIConfig}}"
[plugins.'io.containerd.nri.v1.nri']
  disable = false
{{- if .Joins}}
  plugin_registration_timeout = "1m" # emulated time
  plugin_request_timeout = "10s"
{{- end}}
`,
	"config/cni/10-cluster.conflist": `{
  "cniVersion": "1.0.0",
  "name": "cluster",
  "plugins": [{
    "type": "ptp", "ipMasq": false,
    "ipam": {
      "type": "host-local", "dataDir": "/var/lib/cni/networks",
      "ranges": [[{"subnet": "{{.PodCIDR}}"}]], "routes": [{"dst": "0.0.0.0/0"}]
    }
  }]
}
`,
	// failCgroupV1 is true by default since 1.35. A failed NodePrepareResources is
	// retried after syncFrequency, by default only after a minute. A container that is killed
	// again and again starts at once for the first time only, unless told otherwise. Without
	// disk isolation cadvisor collects no disk statistics, so it stays on.
	"config/kubelet.yaml": `{{if .Joins}}crashLoopBackOff: {maxContainerRestartPeriod: 2s}
{{end}}apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {{.KubeletAddress}}
authentication: {x509: {clientCAFile: "{{.PKI}}/ca.crt"}, anonymous: {enabled: false}, webhook: {enabled: true}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
clusterDNS: [{{.DNS}}]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix://{{.Socket}}
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, imagefs.available: 1%}
failCgroupV1: false
failSwapOn: false
featureGates: {{.Gates}}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
kubeAPIBurst: 400
kubeAPIQPS: 200
makeIPTablesUtilChains: false
maxPods: 250
nodeStatusUpdateFrequency: 5s
oomScoreAdj: 0
readOnlyPort: 0
resolvConf: ""
syncFrequency: 10s
tlsCertFile: "{{.PKI}}/kubelet-serving-{{.Node}}.crt"
tlsPrivateKeyFile: "{{.PKI}}/kubelet-serving-{{.Node}}.key"
volumePluginDir: {{.KubeletDir}}/volumeplugins
`,
}

// writeConfigs writes the configuration files.
func (l layout) writeConfigs() error {
	values := map[string]any{
		"Socket":         ContainerdSocket,
		"Pause":          PauseImage,
		"RestrictOOM":    !canRaiseLimits(),
		"Runc":           l.program("runc", "runc"),
		"CNI":            l.Programs["cni"],
		"CNIConfig":      l.state("config", "cni"),
		"PodCIDR":        PodCIDR(l.Node),
		"Node":           l.node().Name,
		"DNS":            l.DNS,
		"KubeletAddress": l.kubeletAddress(),
		"Joins":          l.Join != "",
		"KubeletDir":     l.KubeletDir,
		"PKI":            l.state("pki"),
		"Gates":          l.yamlGates(),
	}
	for name, text := range configs {
		var b strings.Builder
		if err := template.Must(template.New(name).Parse(text)).Execute(&b, values); err != nil {
			return fmt.Errorf("render %q: %w", name, err)
		}
		path := l.state(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("create the configuration directory: %w", err)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
	}
	return nil
}

// kubeletAddress is where the kubelet listens. A control plane elsewhere comes by an
// address that is not the node's.
func (l layout) kubeletAddress() string {
	if l.Join != "" {
		return "0.0.0.0"
	}
	return NodeIP
}
