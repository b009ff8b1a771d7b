package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// readyTimeout is generous: a loaded CI machine is slow, and an emulated one on
	// it is slower; a component that ends is noticed at once.
	readyTimeout = 20 * time.Minute
	pollInterval = 50 * time.Millisecond
)

// waitFor waits until a component serves. A component that ends is an error at once,
// with the end of its log.
func (c *Cluster) waitFor(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready after %s", readyTimeout))
	defer cancel()
	for {
		asked := time.Now()
		checkErr := c.check(ctx, name)
		if checkErr == nil {
			c.say.Step("%s is ready", name)
			return nil
		}
		if err := c.checkRunning(ctx); err != nil {
			return err
		}
		// Emulated, kubectl takes seconds, which the component would need.
		if err := pause(ctx, max(pollInterval, time.Since(asked))); err != nil {
			return fmt.Errorf("wait for %s: %w: %w\n%s", name, err, checkErr, tailFile(c.LogFile(name), 20))
		}
	}
}

// checkRunning fails when a component has ended that nobody told to.
func (c *Cluster) checkRunning(ctx context.Context) error {
	states, err := c.Status(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(states, func(s State) bool { return s.Ended != "" && !s.Stopped })
	if i < 0 {
		return nil
	}
	name := states[i].Name
	return fmt.Errorf("component %s %s\n%s", name, states[i].Ended, tailFile(c.LogFile(name), 20))
}

// check asks a component whether it serves.
func (c *Cluster) check(ctx context.Context, name string) error {
	switch name {
	case Containerd:
		_, err := c.Output(ctx, "ctr", "version")
		return err
	case Etcd, APIServer:
		_, err := c.Output(ctx, "kubectl", "get", "--raw=/readyz")
		return err
	case ControllerManager:
		_, err := c.Output(ctx, "kubectl", "get", "serviceaccount", "default")
		return err
	case Kubelet:
		return c.checkNode(ctx)
	}
	return nil
}

// checkNode wants a Ready condition with a heartbeat of this kubelet's, not one that an
// earlier kubelet left behind.
func (c *Cluster) checkNode(ctx context.Context) error {
	states, err := c.Status(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(states, func(s State) bool { return s.Name == Kubelet })
	const ready = `jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime} {.message}{end}`
	out, err := c.Output(ctx, "kubectl", "get", "node", c.node().Name, "-o", ready)
	if err != nil {
		return err
	}
	status, rest, _ := strings.Cut(out, " ")
	heartbeat, message, _ := strings.Cut(rest, " ")
	at, err := time.Parse(time.RFC3339, heartbeat)
	if err != nil {
		return fmt.Errorf("parse the node's heartbeat: %w", err)
	}
	if at.Before(states[i].Started.Truncate(time.Second)) {
		return fmt.Errorf("the kubelet has not reported since its start")
	}
	if status != "True" {
		return fmt.Errorf("node %s is not ready: %s", c.node().Name, message)
	}
	return nil
}

// tailFile returns the last n lines of a log, under a heading.
func tailFile(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	lines = lines[max(0, len(lines)-n):]
	return fmt.Sprintf("--- end of %s ---\n%s", path, bytes.Join(lines, []byte("\n")))
}
