package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/artifacts"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/pki"
)

// ControlPlane is an API server with its etcd, and nothing else, on ports of the
// loopback interface that were free: as many as one likes run at a time, also beside
// a cluster, and they need no root. There is no node, and nobody schedules before
// Schedule is called.
type ControlPlane struct {
	dir     string
	layout  layout
	kubectl string
	daemons []daemon
	egress  net.Listener // nil without a node elsewhere
	address string       // of the API server
}

// daemon is a program that runs, and how it was started.
type daemon struct {
	*exec.Cmd
	name string
	argv []string
}

// StartControlPlane starts an API server, which keeps its data below dir. The
// programs die with the caller. Of the options count CacheDir, SourceDir, Kubernetes,
// FeatureGates, RuntimeConfig, NodesAt and Progress.
func StartControlPlane(ctx context.Context, dir string, o Options) (*ControlPlane, error) {
	store, _, err := newStore(&o)
	if err != nil {
		return nil, err
	}
	programs := artifacts.Dirs{}
	for _, c := range artifacts.Components(o.Kubernetes) {
		if c.Name != Etcd && c.Name != "kubernetes" && (c.Name != "helm" || o.NodesAt == nil) {
			continue
		}
		if programs[c.Name], err = store.EnsureOne(ctx, c); err != nil {
			return nil, err
		}
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[2])
	if err := pki.Write(pki.Config{
		Dir: filepath.Join(dir, "pki"), Nodes: nodes(max(1, len(o.NodesAt))),
		ServiceIP: ServiceIP, Server: "https://" + address,
	}); err != nil {
		return nil, err
	}
	o.StateDir = dir
	l := layout{Options: o, Programs: programs}
	cp := &ControlPlane{dir: dir, layout: l, kubectl: l.program("kubernetes", "kubectl"), address: address}
	serving := []string{"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[2])}
	if o.NodesAt != nil {
		flag, err := cp.reachNodes(o.NodesAt)
		if err != nil {
			return nil, err
		}
		serving = append(serving, flag)
	}
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	err = errors.Join(
		cp.start(Etcd, l.etcd(client, peer)),
		cp.start(APIServer, l.apiServer(client, serving...)),
	)
	if err == nil {
		err = cp.wait(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	return cp, nil
}

// freePorts finds ports that nobody listens on. Another program may take one of them
// before we do: then the API server ends at once, and says so.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// Schedule starts the scheduler and of the controller manager what claims need. Nodes
// are what somebody writes: nobody notices that they have no kubelet.
func (cp *ControlPlane) Schedule() error {
	return cp.manage("resourceclaim-controller,serviceaccount-controller,garbage-collector-controller," +
		"device-taint-eviction-controller,job-controller,ttl-after-finished-controller")
}

// Manage starts the scheduler and the whole controller manager, for a node with a
// kubelet.
func (cp *ControlPlane) Manage() error { return cp.manage(allControllers) }

func (cp *ControlPlane) manage(controllers string) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	scheduler := append(cp.layout.scheduler(), fmt.Sprintf("--secure-port=%d", ports[0]))
	manager := append(cp.layout.controllerManager(controllers), fmt.Sprintf("--secure-port=%d", ports[1]))
	return errors.Join(cp.start(Scheduler, scheduler), cp.start(ControllerManager, manager))
}

// Kubeconfig is the path of an administrator's kubeconfig.
func (cp *ControlPlane) Kubeconfig() string { return filepath.Join(cp.dir, "pki", "admin.kubeconfig") }

func (cp *ControlPlane) log(name string) string { return filepath.Join(cp.dir, name+".log") }

// start starts a daemon with a plain environment: no proxy of the caller.
func (cp *ControlPlane) start(name string, argv []string) error {
	log, err := os.OpenFile(cp.log(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"HOME=" + cp.dir, "LANG=C.UTF-8", "PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	cp.daemons = append(cp.daemons, daemon{cmd, name, argv})
	return nil
}

// Restart kills the API server as a crash does, starts it again and waits until it serves.
// What it has is in etcd.
func (cp *ControlPlane) Restart(ctx context.Context) error {
	i := slices.IndexFunc(cp.daemons, func(d daemon) bool { return d.name == APIServer })
	if i < 0 {
		return errors.New("restart the API server: it was stopped")
	}
	d := cp.daemons[i]
	if err := d.Process.Kill(); err != nil {
		return fmt.Errorf("kill the API server: %w", err)
	}
	_ = d.Wait() // it was killed
	cp.daemons = slices.Delete(cp.daemons, i, i+1)
	if err := cp.start(d.name, d.argv); err != nil {
		return err
	}
	return cp.wait(ctx)
}

// PID is the process ID of a daemon, 0 if it does not run.
func (cp *ControlPlane) PID(name string) int {
	for _, d := range cp.daemons {
		if d.name == name {
			return d.Process.Pid
		}
	}
	return 0
}

// wait waits until the API server serves.
func (cp *ControlPlane) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready after %s", readyTimeout))
	defer cancel()
	for {
		out, err := exec.CommandContext(ctx, cp.kubectl, "--kubeconfig", cp.Kubeconfig(), "get", "--raw=/readyz").CombinedOutput()
		if err == nil {
			return nil
		}
		if err := pause(ctx, pollInterval); err != nil {
			return fmt.Errorf("wait for the API server: %w: %s\n%s\n%s", err, strings.TrimSpace(string(out)), tailFile(cp.log(Etcd), 10), tailFile(cp.log(APIServer), 20))
		}
		for _, d := range cp.daemons {
			if unix.Kill(d.Process.Pid, 0) != nil || ended(d.Process.Pid) {
				return fmt.Errorf("start the API server: %s has ended\n%s\n%s", filepath.Base(d.Path), tailFile(cp.log(Etcd), 10), tailFile(cp.log(APIServer), 20))
			}
		}
	}
}

// ended reports whether a child has ended that nobody has waited for.
func ended(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// Stop ends the API server first, so that it does not look for etcd in vain. The
// data stay.
func (cp *ControlPlane) Stop() error {
	var errs []error
	for i := len(cp.daemons) - 1; i >= 0; i-- {
		d := cp.daemons[i]
		errs = append(errs, d.Process.Signal(unix.SIGTERM))
		stopped := time.AfterFunc(stopTime, func() { d.Process.Kill() })
		// How it ends does not matter, as nobody needs it any more.
		_ = d.Wait()
		stopped.Stop()
	}
	cp.daemons = nil
	if cp.egress != nil {
		errs = append(errs, cp.egress.Close())
	}
	return errors.Join(errs...)
}

// stopTime is how long an orderly end may take: the API server waits for its watchers.
const stopTime = 5 * time.Second
