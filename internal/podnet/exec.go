package podnet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
)

// execution runs plugins. The library's own waits for whatever a plugin has started, for ever:
// until the last one has closed the output.
type execution struct {
	invoke.DefaultExec
	patience time.Duration
}

func (i *IPAM) exec() *execution { return &execution{patience: cmp.Or(i.Patience, DefaultPatience)} }

var errImpatient = errors.New("it took too long, and was stopped")

// ExecPlugin implements invoke.Exec. A plugin that takes too long ends with all that it has
// started.
func (e *execution) ExecPlugin(ctx context.Context, plugin string, stdin []byte, env []string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.patience, fmt.Errorf("%w after %v", errImpatient, e.patience))
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, plugin)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, bytes.NewReader(stdin), &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case err == nil:
		return stdout.Bytes(), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	default:
		return nil, complaint(err, stdout.Bytes(), stderr.String())
	}
}

// complaint is the error of a plugin that failed, in its own words if it has any.
func complaint(err error, stdout []byte, stderr string) error {
	said := &types.Error{}
	if json.Unmarshal(stdout, said) == nil && said.Msg != "" {
		return said
	}
	return fmt.Errorf("%w: %q", err, strings.TrimSpace(string(stdout)+stderr))
}
