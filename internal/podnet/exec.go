package podnet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/quote"
)

// execution runs plugins with a timeout. The library's own implementation waits without a limit until all processes
// that a plugin has started have closed the output.
type execution struct {
	invoke.DefaultExec
	patience time.Duration
}

func (i *IPAM) exec() *execution { return &execution{patience: cmp.Or(i.Patience, DefaultPatience)} }

var errImpatient = errors.New("it took too long, and was stopped")

// ExecPlugin implements invoke.Exec. After the timeout it kills the plugin and its child processes.
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

// complaint returns the error of a failed plugin: its own message, or its output.
func complaint(err error, stdout []byte, stderr string) error {
	said := &types.Error{}
	if json.Unmarshal(stdout, said) == nil && said.Msg != "" {
		return quote.Error(said)
	}
	return fmt.Errorf("%w: %s", err, quote.Foreign(string(stdout)+stderr))
}
