package artifacts

import "strings"

// Component is one wrapper module below build/ and how its programs are built.
type Component struct {
	// Name is what the component is called in the cache.
	Name string
	// Wrapper is the directory below build/; Name by default.
	Wrapper string
	// Module is the pinned module whose version names the component; empty
	// for a program of our own.
	Module string
	// Targets are what go build is given; the tools of the wrapper's go.mod by
	// default.
	Targets []string
	// Cgo links against C libraries (libseccomp for runc).
	Cgo bool
	// Tags are build tags.
	Tags string
	// GCFlags are flags of the compiler.
	GCFlags string
	// LDFlags come after "-s -w"; {{version}} is replaced by the version
	// and {{minor}} by its second number.
	LDFlags []string
	// Rename gives a program another name than go build does.
	Rename map[string]string
}

// Components lists everything the cluster runs, the quick builds first so that
// a missing compiler or library shows within seconds. Kubernetes is a minor version
// that has a wrapper of its own, or empty for the newest.
func Components(kubernetes string) []Component {
	return []Component{
		{Name: "pause", Targets: []string{"."}},
		{
			Name: "runc", Module: "github.com/opencontainers/runc", Cgo: true,
			// Without seccomp every pod sandbox fails: the CRI plugin asks for
			// the RuntimeDefault profile.
			Tags:    "netgo,osusergo,seccomp",
			LDFlags: []string{"-linkmode", "external", "-extldflags", "-static"},
		},
		{Name: "cni", Module: "github.com/containernetworking/plugins"},
		{
			Name: "etcd", Wrapper: shared, Module: "go.etcd.io/etcd/server/v3",
			Targets: []string{"go.etcd.io/etcd/server/v3"}, Rename: map[string]string{"server": "etcd"},
		},
		{
			Name: "containerd", Wrapper: shared, Module: "github.com/containerd/containerd/v2",
			Targets: under("github.com/containerd/containerd/v2/cmd/", "containerd", "containerd-shim-runc-v2", "ctr"),
			LDFlags: []string{"-X", "github.com/containerd/containerd/v2/version.Version={{version}}"},
		},
		{
			Name: "helm", Wrapper: shared, Module: "helm.sh/helm/v3",
			Targets: []string{"helm.sh/helm/v3/cmd/helm"},
			LDFlags: append(
				[]string{"-X", "helm.sh/helm/v3/internal/version.version={{version}}"},
				helmCapabilities()...),
		},
		{
			Name: "kubernetes", Wrapper: kubernetesWrapper(kubernetes), Module: "k8s.io/kubernetes",
			Targets: under("k8s.io/kubernetes/cmd/",
				"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet"),
			LDFlags: kubernetesVersion(),
		},
	}
}

// shared is the wrapper of the components that link the same packages: in one module
// each has one version, so the compiler sees it once.
const shared = "cluster"

func under(prefix string, names ...string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = prefix + name
	}
	return paths
}

// Docker is Docker Engine and its command. No cluster runs it; tests of cdi-gen do.
// The command has no go.mod, for which go assumes a language older than its own.
var Docker = Component{
	Name: "docker", Module: "github.com/moby/moby/v2",
	GCFlags: "github.com/docker/cli/...=-lang=go1.26",
	LDFlags: []string{"-X", "github.com/moby/moby/v2/dockerversion.Version={{version}}", "-X", "github.com/docker/cli/cli/version.Version={{version}}"},
}

// Multus is the CNI plugin that runs others for secondary networks, and host-device, one
// of those others. A test makes it the cluster's.
var Multus = Component{Name: "multus", Module: "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"}

// CoreDNS serves the names of Services, with few of its plugins. Clusters of several nodes run it.
var CoreDNS = Component{Name: "coredns", Module: "github.com/coredns/coredns", Targets: []string{"."}}

// Controllers are programs of others that hold back jobs or make their pods, by name. Their wrappers have the same
// Kubernetes libraries in one version; JobSet and LeaderWorkerSet need an older controller-runtime than Kueue.
var Controllers = map[string]Component{
	"kueue": {Name: "kueue", Module: "sigs.k8s.io/kueue", Targets: under("sigs.k8s.io/kueue/cmd/", "kueue")},
	"mpi-operator": {
		Name: "mpi-operator", Wrapper: "kueue", Module: "github.com/kubeflow/mpi-operator",
		Targets: under("github.com/kubeflow/mpi-operator/cmd/", "mpi-operator"),
	},
	"jobset": {
		Name: "jobset", Wrapper: "jobs", Module: "sigs.k8s.io/jobset", Targets: []string{"sigs.k8s.io/jobset"},
	},
	"lws": {
		Name: "lws", Wrapper: "jobs", Module: "sigs.k8s.io/lws", Targets: []string{"sigs.k8s.io/lws/cmd"},
		Rename: map[string]string{"cmd": "lws"},
	},
}

func kubernetesWrapper(minor string) string {
	if minor == "" {
		return shared
	}
	return "kubernetes-" + minor
}

func (c Component) wrapper() string {
	if c.Wrapper != "" {
		return c.Wrapper
	}
	return c.Name
}

// kubernetesVersion stamps what "kubectl version" and the node's status report.
func kubernetesVersion() []string {
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X", pkg+".gitVersion={{version}}",
			"-X", pkg+".gitMajor=1",
			"-X", pkg+".gitMinor={{minor}}",
			"-X", pkg+".gitTreeState=clean")
	}
	return flags
}

// helmCapabilities stamps the Kubernetes version that "helm template" assumes
// without a cluster; unstamped it is 1.20. It is the cluster's own.
func helmCapabilities() []string {
	var flags []string
	for _, pkg := range []string{"helm.sh/helm/v3/pkg/chartutil", "helm.sh/helm/v3/pkg/lint/rules"} {
		flags = append(flags, "-X", pkg+".k8sVersionMajor=1", "-X", pkg+".k8sVersionMinor=37")
	}
	return flags
}

func (c Component) ldflags(version string) string {
	minor := ""
	if parts := strings.Split(version, "."); len(parts) > 1 {
		minor = parts[1]
	}
	fill := strings.NewReplacer("{{version}}", version, "{{minor}}", minor)
	return fill.Replace(strings.Join(append([]string{"-s", "-w"}, c.LDFlags...), " "))
}
