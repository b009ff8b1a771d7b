package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/artifacts"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/supervisor"
)

// The components, in their order of start.
const (
	Etcd              = "etcd"
	Containerd        = "containerd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubelet           = "kubelet"
)

// Components lists the names that Stop, Start, Restart and Logs take.
func Components() []string {
	return []string{Etcd, Containerd, APIServer, ControllerManager, Scheduler, Kubelet}
}

// own are the components that this machine runs.
func (l layout) own() []string {
	if l.Join != "" {
		return []string{Containerd, Kubelet}
	}
	return Components()
}

const (
	serviceCIDR = "10.96.0.0/24"
	etcdURL     = "http://127.0.0.1:2379"
	etcdPeerURL = "http://127.0.0.1:2380"

	// containerdMemlock is containerd's soft RLIMIT_MEMLOCK, which containers
	// inherit: small, so that the effect of our hook is seen even where
	// nobody may raise the hard limit.
	containerdMemlock = 64 << 10
)

// layout is what a cluster is made of. It is kept in the state directory.
type layout struct {
	Options
	// Programs are the directories of the built components.
	Programs artifacts.Dirs `json:"programs"`
}

func (l layout) state(elem ...string) string {
	return filepath.Join(append([]string{l.StateDir}, elem...)...)
}

func (l layout) pki(name string) string { return l.state("pki", name) }

// program is the path of a component's program.
func (l layout) program(component, name string) string {
	return filepath.Join(l.Programs[component], name)
}

// env is the environment inside: what the caller has, and where the cluster is.
func (l layout) env(caller []string) []string {
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return append(caller,
		"PATH="+l.Programs.Path()+string(os.PathListSeparator)+path,
		"KUBECONFIG="+l.pki("admin.kubeconfig"),
		kubectlCache(l.StateDir),
		"CONTAINERD_ADDRESS="+ContainerdSocket,
		"CONTAINERD_NAMESPACE=k8s.io",
	)
}

// kubectlCache has kubectl keep what it learns of the API below dir, and not in the user's home directory. There it
// tells clusters apart by their addresses, and all of these have the same one.
func kubectlCache(dir string) string { return "KUBECACHEDIR=" + filepath.Join(dir, "kubectl-cache") }

// components returns the command lines.
func (l layout) components() []supervisor.Component {
	commands := map[string][]string{
		Etcd:       l.etcd(etcdURL, etcdPeerURL),
		Containerd: {l.program("containerd", "containerd"), "--config", l.state("config", "containerd.toml")},
		// The service address is on lo, so port 443 of all addresses makes
		// https://10.96.0.1:443 answer without kube-proxy.
		APIServer:         l.apiServer(etcdURL, "--bind-address=0.0.0.0", "--secure-port=443"),
		ControllerManager: l.controllerManager(allControllers),
		Scheduler:         l.scheduler(),
		Kubelet:           l.kubelet(),
	}
	// The daemons get a plain environment: no proxy, no GODEBUG of the caller. GOGC spends memory for processor time.
	env := l.env([]string{"HOME=/root", "LANG=C.UTF-8", "GOGC=400"})
	var components []supervisor.Component
	for _, name := range l.own() {
		c := supervisor.Component{Name: name, Argv: commands[name], Env: env, Log: l.log(name)}
		if name == Containerd {
			c.MemlockSoft = containerdMemlock
		}
		components = append(components, c)
	}
	return components
}

func (l layout) log(name string) string { return l.state("logs", name+".log") }

func (l layout) etcd(url, peerURL string) []string {
	return []string{
		l.program("etcd", "etcd"), "--name=node", "--data-dir=" + l.state("etcd"),
		"--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
		"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL,
		"--initial-cluster=node=" + peerURL,
	}
}

func (l layout) apiServer(etcd string, serving ...string) []string {
	argv := []string{
		l.program("kubernetes", APIServer), "--etcd-servers=" + etcd, "--advertise-address=" + NodeIP,
		"--service-cluster-ip-range=" + serviceCIDR,
		"--tls-cert-file=" + l.pki("apiserver.crt"), "--tls-private-key-file=" + l.pki("apiserver.key"),
		"--client-ca-file=" + l.pki("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + l.pki("sa.pub"), "--service-account-signing-key-file=" + l.pki("sa.key"),
		"--kubelet-client-certificate=" + l.pki("kubelet-client.crt"), "--kubelet-client-key=" + l.pki("kubelet-client.key"),
		"--kubelet-certificate-authority=" + l.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		// Without the front proxy's certificates the controller manager and the
		// scheduler log a missing CA bundle for ever.
		"--requestheader-client-ca-file=" + l.pki("ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + l.pki("front-proxy.crt"), "--proxy-client-key-file=" + l.pki("front-proxy.key"),
		// There is no kube-proxy: the API server reaches the webhooks of a Service at its pods.
		"--enable-aggregator-routing",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--allow-privileged", "--profiling=false",
	}
	argv = append(argv, serving...)
	if l.RuntimeConfig != "" {
		argv = append(argv, "--runtime-config="+l.RuntimeConfig)
	}
	return l.common(argv)
}

// allControllers are those of a cluster: its nodes have their networks from CNI's configuration.
const allControllers = "*,-nodeipam"

// controllerManager has the given controllers only. The flag adds to itself, so it may be there once.
func (l layout) controllerManager(controllers string) []string {
	kubeconfig := l.pki("controller-manager.kubeconfig")
	return l.common([]string{
		l.program("kubernetes", ControllerManager), "--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--leader-elect=false",
		"--service-account-private-key-file=" + l.pki("sa.key"), "--root-ca-file=" + l.pki("ca.crt"),
		// With the default QPS the default ServiceAccount appears 5 s late.
		"--use-service-account-credentials=true", "--kube-api-qps=300", "--kube-api-burst=600",
		"--controllers=" + controllers,
	})
}

func (l layout) scheduler() []string {
	kubeconfig := l.pki("scheduler.kubeconfig")
	return l.common([]string{
		l.program("kubernetes", Scheduler), "--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--leader-elect=false",
	})
}

func (l layout) kubelet() []string {
	return []string{
		l.program("kubernetes", Kubelet), "--config=" + l.state("config", "kubelet.yaml"),
		"--kubeconfig=" + l.pki("kubelet-"+l.node().Name+".kubeconfig"),
		"--root-dir=" + l.KubeletDir, "--cert-dir=" + filepath.Join(l.KubeletDir, "pki"),
		"--hostname-override=" + l.node().Name, "--node-ip=" + l.node().IP,
		fmt.Sprintf("--v=%d", l.Verbosity),
	}
}

// common adds what all Kubernetes components but the kubelet share.
func (l layout) common(argv []string) []string {
	if gates := l.gates(); gates != "" {
		argv = append(argv, "--feature-gates="+gates)
	}
	return append(argv, fmt.Sprintf("--v=%d", l.Verbosity))
}

// canRaiseLimits says whether we hold CAP_SYS_RESOURCE; without it nobody may lower
// an OOM score or raise a hard limit.
func canRaiseLimits() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// yamlGates renders the feature gates as a flow mapping.
func (l layout) yamlGates() string {
	return "{" + strings.NewReplacer("=", ": ", ",", ", ").Replace(l.gates()) + "}"
}
