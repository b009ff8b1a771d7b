package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"syscall"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/images"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/pki"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/progress"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/sandbox"
)

// optionsFile holds the options of the running cluster.
const optionsFile = "options.json"

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
	c, err := l.open(ctx, log)
	switch {
	case err == nil:
		if err := l.checkOptions(); err != nil {
			return nil, err
		}
		return c, c.bringUp(ctx)
	case !errors.Is(err, ErrNotRunning):
		return nil, err
	}
	return l.create(ctx, log)
}

// create makes a cluster from nothing.
func (l layout) create(ctx context.Context, log *progress.Log) (*Cluster, error) {
	lock, err := l.claim()
	if err != nil {
		return nil, err
	}
	defer lock.Close() // process 1 has its own descriptor
	if err := l.cleanUp(false); err != nil {
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
	if err := c.bringUp(ctx); err != nil {
		return nil, errors.Join(err, l.takeDown(true))
	}
	log.Step("up: node %s is ready", NodeName)
	return c, nil
}

// checkOptions compares the wanted options with the running cluster's.
func (l layout) checkOptions() error {
	data, err := os.ReadFile(l.state(optionsFile))
	if err != nil {
		return fmt.Errorf("read the running cluster's options: %w", err)
	}
	want, err := json.Marshal(l.Options)
	if err != nil {
		return err
	}
	var a, b map[string]any
	if err := errors.Join(json.Unmarshal(data, &a), json.Unmarshal(want, &b)); err != nil {
		return fmt.Errorf("compare the running cluster's options: %w", err)
	}
	if !reflect.DeepEqual(a, b) {
		return fmt.Errorf("the cluster runs with other options (%s, wanted %s): take it down first", data, want)
	}
	return nil
}

// prepare fills the state directory.
func (l layout) prepare() error {
	if err := os.MkdirAll(l.StateDir, 0o755); err != nil {
		return fmt.Errorf("create the state directory: %w", err)
	}
	if err := os.WriteFile(l.state(markerFile), nil, 0o644); err != nil {
		return fmt.Errorf("mark the state directory: %w", err)
	}
	for _, dir := range []string{"config", "kubelet", "containerd", "logs/pods", "logs/containers"} {
		if err := os.MkdirAll(l.state(dir), 0o755); err != nil {
			return fmt.Errorf("create the state directory: %w", err)
		}
	}
	err := pki.Write(pki.Config{
		Dir: l.state("pki"), Node: NodeName, NodeIP: NodeIP, ServiceIP: ServiceIP,
		Server: "https://" + ServiceIP + ":443",
	})
	if err != nil {
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
	if err := l.writeJSON(optionsFile, l.Options); err != nil {
		return err
	}
	return l.writeJSON(supervisorFile, supervisorConfig{Sandbox: l.sandbox(), Components: l.components()})
}

func (l layout) sandbox() sandbox.Config {
	keep := []string{l.CacheDir, l.SourceDir}
	if wd, err := os.Getwd(); err == nil {
		keep = append(keep, wd)
	}
	return sandbox.Config{
		StateDir: l.StateDir, HostRoot: l.HostRoot, Keep: keep,
		Hostname: NodeName, NodeAddr: NodeIP + "/24", ServiceAddr: ServiceIP,
	}
}

func (l layout) writeJSON(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.state(name), data, 0o600); err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	return nil
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: sandbox.Namespaces, Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisor in new namespaces: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		if c, err := l.open(ctx, log); err == nil {
			return c, nil
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
	for _, name := range []string{Etcd, Containerd, APIServer} {
		if err := c.start(ctx, name); err != nil {
			return err
		}
	}
	if err := c.waitFor(ctx, Containerd); err != nil {
		return err
	}
	if err := c.importImages(ctx); err != nil {
		return err
	}
	if err := c.waitFor(ctx, APIServer); err != nil {
		return err
	}
	for _, name := range []string{ControllerManager, Scheduler, Kubelet} {
		if err := c.start(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range []string{Scheduler, Kubelet, ControllerManager} {
		if err := c.waitFor(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) importImages(ctx context.Context) error {
	have, err := c.Output(ctx, "ctr", "images", "ls", "-q", "name=="+BusyboxImage)
	if err != nil || have != "" {
		return err
	}
	if err := c.Load(ctx, c.state("images.tar")); err != nil {
		return err
	}
	c.say.Step("images imported")
	return nil
}
