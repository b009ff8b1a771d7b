package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/artifacts"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/progress"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/sandbox"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/supervisor"
)

// ErrNotRunning says that no cluster runs with this state directory.
var ErrNotRunning = errors.New("no cluster is running")

// Cluster is a running cluster.
type Cluster struct {
	layout
	client *supervisor.Client
	say    *progress.Log
	pid    int
}

// State says how a component is.
type State = supervisor.State

// Build builds every program that the cache lacks, and returns their directories as
// a value for PATH: tests outside of the cluster use its runc and helm, so that
// nothing has to be installed that could conflict with the host's own.
func Build(ctx context.Context, o Options) (path string, err error) {
	l, _, err := newLayout(ctx, o)
	return l.Programs.Path(), err
}

// BuildDocker builds Docker Engine and its command, which no cluster needs, if they are
// not in the cache, and returns their directory.
func BuildDocker(ctx context.Context, o Options) (dir string, err error) {
	return buildOne(ctx, o, artifacts.Docker)
}

// BuildMultus builds Multus and a plugin for it, as BuildDocker does.
func BuildMultus(ctx context.Context, o Options) (dir string, err error) {
	return buildOne(ctx, o, artifacts.Multus)
}

// BuildCoreDNS builds CoreDNS, as BuildDocker does.
func BuildCoreDNS(ctx context.Context, o Options) (dir string, err error) {
	return buildOne(ctx, o, artifacts.CoreDNS)
}

// BuildController builds one of artifacts.Controllers, as BuildDocker does. It returns the directory of its module too,
// which has the manifests.
func BuildController(ctx context.Context, o Options, name string) (dir, module string, err error) {
	store, _, err := newStore(&o)
	if err != nil {
		return "", "", err
	}
	c := artifacts.Controllers[name]
	if dir, err = store.EnsureOne(ctx, c); err != nil {
		return "", "", err
	}
	module, err = store.ModuleDir(ctx, c)
	return dir, module, err
}

func buildOne(ctx context.Context, o Options, c artifacts.Component) (dir string, err error) {
	store, _, err := newStore(&o)
	if err != nil {
		return "", err
	}
	return store.EnsureOne(ctx, c)
}

// newLayout completes the options and makes sure that the programs are there.
func newLayout(ctx context.Context, o Options) (layout, *progress.Log, error) {
	store, log, err := newStore(&o)
	if err != nil {
		return layout{}, nil, err
	}
	programs, err := store.Ensure(ctx)
	return layout{Options: o, Programs: programs}, log, err
}

// newStore completes the options and opens the cache of programs.
func newStore(o *Options) (*artifacts.Store, *progress.Log, error) {
	complete, err := o.complete()
	if err == nil && complete.SourceDir == "" {
		complete.SourceDir, err = findSource()
	}
	if err != nil {
		return nil, nil, err
	}
	*o = complete
	log := progress.New(o.Progress)
	return &artifacts.Store{Cache: o.CacheDir, Source: o.SourceDir, Kubernetes: o.Kubernetes, Progress: log}, log, nil
}

// Open returns the running cluster of the options' state directory, or
// ErrNotRunning. Of the options only StateDir and Progress count.
func Open(ctx context.Context, o Options) (*Cluster, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	client := supervisor.NewClient(o.StateDir)
	pid, err := client.Pid(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	l, err := readLayout(o.StateDir)
	if err != nil {
		return nil, err
	}
	return &Cluster{layout: l, client: client, say: progress.New(o.Progress), pid: pid}, nil
}

// Status lists the components in their order of start.
func (c *Cluster) Status(ctx context.Context) ([]State, error) {
	return c.client.Do(ctx, supervisor.Request{Verb: "status"})
}

// Stop sends the signal to a component and waits for its end. It ends nothing
// else: containers outlive containerd and the kubelet.
func (c *Cluster) Stop(ctx context.Context, name string, sig syscall.Signal) error {
	_, err := c.client.Do(ctx, supervisor.Request{Verb: "stop", Name: name, Signal: int(sig)})
	return err
}

// Signal sends a signal to a component and returns at once.
func (c *Cluster) Signal(ctx context.Context, name string, sig syscall.Signal) error {
	_, err := c.client.Do(ctx, supervisor.Request{Verb: "signal", Name: name, Signal: int(sig)})
	return err
}

// Ready says why the node is not ready, if it is not.
func (c *Cluster) Ready(ctx context.Context) error { return c.checkNode(ctx) }

// Start starts a component, if it does not run, and waits until it serves.
func (c *Cluster) Start(ctx context.Context, name string) error {
	if err := c.start(ctx, name); err != nil {
		return err
	}
	return c.waitFor(ctx, name)
}

func (c *Cluster) start(ctx context.Context, name string) error {
	_, err := c.client.Do(ctx, supervisor.Request{Verb: "start", Name: name})
	return err
}

// Restart stops a component with SIGTERM and starts it.
func (c *Cluster) Restart(ctx context.Context, name string) error {
	if err := c.Stop(ctx, name, syscall.SIGTERM); err != nil {
		return err
	}
	return c.Start(ctx, name)
}

// Load imports image archives (docker-archive or OCI layout) into containerd.
func (c *Cluster) Load(ctx context.Context, archives ...string) error {
	for _, archive := range archives {
		path, err := filepath.Abs(archive)
		if err != nil {
			return err
		}
		if _, err := c.Output(ctx, "ctr", "images", "import", path); err != nil {
			return fmt.Errorf("import image archive %q: %w", archive, err)
		}
	}
	return nil
}

// Kubeconfig is the path of an administrator's kubeconfig. The API server is reached
// in the cluster's network namespace alone, which WholeMachine makes the machine's.
func (c *Cluster) Kubeconfig() string { return c.pki("admin.kubeconfig") }

// LogFile is the path of a component's log, or of "supervisor"'s.
func (c *Cluster) LogFile(name string) string { return c.layout.log(name) }

// LogFile is like the method, for a cluster that may not be running (any more).
func LogFile(o Options, name string) (string, error) {
	o, err := o.complete()
	return layout{Options: o}.log(name), err
}

// Command returns a command that Run or Begin runs inside the cluster's namespaces,
// with the caller's environment and KUBECONFIG, CONTAINERD_ADDRESS,
// CONTAINERD_NAMESPACE and PATH set so that kubectl, ctr and helm work.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	env := c.env(os.Environ())
	cmd := exec.CommandContext(ctx, lookPath(name, c.Programs.Path()), args...)
	cmd.Env = env
	cmd.Dir, _ = os.Getwd()
	return cmd
}

// lookPath finds one of the cluster's programs before one of the host's.
func lookPath(name, path string) string {
	if strings.ContainsRune(name, filepath.Separator) {
		return name
	}
	for _, dir := range filepath.SplitList(path) {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name)
		}
	}
	return name
}

// Begin starts a command inside; the function it returns waits for its end. The
// command dies with the calling process and with the cluster.
func (c *Cluster) Begin(cmd *exec.Cmd) (wait func() error, err error) {
	return sandbox.Start(c.pid, cmd)
}

// Run runs a command inside.
func (c *Cluster) Run(cmd *exec.Cmd) error {
	wait, err := c.Begin(cmd)
	if err != nil {
		return err
	}
	return wait()
}

// Output runs a program inside and returns its standard output; an error carries its
// standard error.
func (c *Cluster) Output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := c.Command(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := c.Run(cmd); err != nil {
		return stdout.String(), fmt.Errorf("run %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
