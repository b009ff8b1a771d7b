package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/images"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/pki"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/progress"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/sandbox"
)

// Up brings the cluster up and waits until its node is ready. Where it already
// runs with the same options, it starts the stopped components and waits. When it
// fails nothing runs any more, and the logs are still in the state directory.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("bring the cluster up: namespaces and mounts need root")
	}
	l, log, err := newLayout(ctx, o)
	if err != nil {
		return nil, err
	}
	unlock, err := l.operate(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	c, err := Open(ctx, l.Options)
	switch {
	case err == nil:
		if err := c.checkOptions(l.Options); err != nil {
			return nil, err
		}
		return c, c.bringUp(ctx)
	case !errors.Is(err, ErrNotRunning):
		return nil, err
	}
	return l.create(ctx, log)
}

// create makes a cluster from nothing. On a whole machine it goes on with the state directory of before a reboot.
func (l layout) create(ctx context.Context, log *progress.Log) (*Cluster, error) {
	lock, err := l.claim()
	if err != nil {
		return nil, err
	}
	defer lock.Close() // process 1 has its own descriptor
	if err := l.checkFixture(); err != nil {
		return nil, err
	}
	if err := l.cleanUp(l.WholeMachine); err != nil {
		return nil, fmt.Errorf("clean up after an earlier cluster: %w", err)
	}
	if err := l.prepare(); err != nil {
		return nil, err
	}
	log.Step("prepared %s", l.StateDir)
	c, err := l.launch(ctx, log, lock)
	if err != nil {
		return nil, errors.Join(err, l.cleanUp(true))
	}
	log.Step("namespaces made, supervisor is process %d", c.pid)
	err = l.connect(ctx, c)
	if err == nil {
		err = c.bringUp(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, l.takeDown(true))
	}
	log.Step("up: node %s is ready", l.node().Name)
	return c, nil
}

// checkOptions compares the wanted options with the running cluster's.
func (l layout) checkOptions(want Options) error {
	has, err := json.Marshal(l.Options)
	if err != nil {
		return err
	}
	wants, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if !bytes.Equal(has, wants) {
		return fmt.Errorf("bring the cluster up: one runs with other options (%s, wanted %s): take it down first", has, wants)
	}
	return nil
}

// prepare fills the state directory.
func (l layout) prepare() error {
	if err := l.mark(); err != nil {
		return err
	}
	for _, dir := range []string{"config", "kubelet", "containerd", "logs/pods", "logs/containers"} {
		if err := os.MkdirAll(l.state(dir), 0o755); err != nil {
			return fmt.Errorf("create the state directory: %w", err)
		}
	}
	if err := l.writePKI(); err != nil {
		return err
	}
	if err := l.writeConfigs(); err != nil {
		return err
	}
	if err := images.WriteArchive(l.state("images.tar"), l.program("pause", "pause")); err != nil {
		return err
	}
	if err := l.makeFixtureDev(); err != nil {
		return err
	}
	if err := l.write(); err != nil {
		return err
	}
	hierarchies, err := sandbox.FindHierarchies(l.cgroup())
	if err != nil {
		return err
	}
	return l.writeJSON(supervisorFile, supervisorConfig{Sandbox: l.sandbox(hierarchies), Components: l.components()})
}

// writePKI makes certificates, or takes over those of the control plane.
func (l layout) writePKI() error {
	config := pki.Config{
		Dir: l.state("pki"), Nodes: nodes(2), ServiceIP: ServiceIP, // a second one may join
		Server: "https://" + ServiceIP + ":443",
	}
	if l.Join != "" {
		config.Nodes = []pki.Node{l.node()}
		return pki.Copy(filepath.Join(l.Join, "pki"), config)
	}
	return pki.Write(config)
}

func (l layout) sandbox(hierarchies []sandbox.Hierarchy) sandbox.Config {
	keep := []string{l.CacheDir, l.SourceDir}
	for _, dir := range l.Programs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			keep = append(keep, real)
		}
	}
	if wd, err := os.Getwd(); err == nil {
		keep = append(keep, wd)
	}
	service := ServiceIP
	if l.Join != "" {
		service = "" // that of the other machine
	}
	return sandbox.Config{
		StateDir: l.StateDir, HostRoot: l.HostRoot, KubeletDir: l.KubeletDir, WholeMachine: l.WholeMachine, Keep: keep,
		Hostname: l.node().Name, NodeAddr: l.node().IP + "/24", ServiceAddr: service,
		Cgroups: hierarchies,
	}
}

// launch starts process 1 and waits until it answers.
func (l layout) launch(ctx context.Context, log *progress.Log, lock *os.File) (*Cluster, error) {
	out, err := os.Create(l.log("supervisor"))
	if err != nil {
		return nil, fmt.Errorf("create the supervisor's log: %w", err)
	}
	defer out.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"dra-driver-rdma-cluster-supervisor"}
	cmd.Env = supervisorEnv(stageCgroups, l.StateDir)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: sandbox.Namespaces(l.WholeMachine), Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisor in new namespaces: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		if c, err := Open(ctx, l.Options); err == nil {
			c.say, c.Images = log, l.Images
			return c, recordPid(lock, c.pid)
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("start the supervisor: %v\n%s", err, tailFile(l.log("supervisor"), 10))
		case <-ctx.Done():
			cmd.Process.Kill()
			<-ended
			return nil, context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// bringUp starts what does not run, in an order in which nothing has to wait for a
// retry, and waits until the node is ready.
func (c *Cluster) bringUp(ctx context.Context) error {
	if err := c.startAll(ctx, Etcd, Containerd, APIServer); err != nil {
		return err
	}
	if err := c.waitForAll(ctx, Containerd); err != nil {
		return err
	}
	if err := c.importImages(ctx); err != nil {
		return err
	}
	if err := c.waitForAll(ctx, APIServer); err != nil {
		return err
	}
	if err := c.startAll(ctx, ControllerManager, Scheduler, Kubelet); err != nil {
		return err
	}
	return c.waitForAll(ctx, Scheduler, Kubelet, ControllerManager)
}

// startAll starts those of the components that this machine runs.
func (c *Cluster) startAll(ctx context.Context, names ...string) error {
	for _, name := range names {
		if slices.Contains(c.own(), name) {
			if err := c.start(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitForAll waits for those of the components that this machine runs.
func (c *Cluster) waitForAll(ctx context.Context, names ...string) error {
	for _, name := range names {
		if slices.Contains(c.own(), name) {
			if err := c.waitFor(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cluster) importImages(ctx context.Context) error {
	have, err := c.Output(ctx, "ctr", "images", "ls", "-q", "name=="+BusyboxImage)
	if err != nil || have != "" {
		return err
	}
	if err := c.Load(ctx, append([]string{c.state("images.tar")}, c.Images...)...); err != nil {
		return err
	}
	c.say.Step("images imported")
	return nil
}
