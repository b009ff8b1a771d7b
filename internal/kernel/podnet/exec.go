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

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// execution runs plugins with a timeout. The library's own implementation waits without a limit until all processes
// that a plugin has started have closed the output.
type execution struct {
	invoke.DefaultExec
	patience time.Duration
}

func (i *IPAM) exec() *execution { return &execution{patience: cmp.Or(i.Patience, DefaultPatience)} }

var errImpatient = errors.New("it took too long, and was stopped")

// ExecPlugin implements invoke.Exec. After the timeout it kills the plugin and its child processes. It also does so if
// the plugin writes too much.
func (e *execution) ExecPlugin(ctx context.Context, plugin string, stdin []byte, env []string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.patience, fmt.Errorf("%w after %v", errImpatient, e.patience))
	defer cancel()
	stdout, stderr := output{most: maxAnswerOf, full: cancel}, output{most: maxComplaint, full: func() {}}
	cmd := exec.CommandContext(ctx, plugin)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, bytes.NewReader(stdin), &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // it has ended, and left a child that keeps its output open
		_ = kill()
	}
	switch {
	case stdout.overflowed:
		return nil, errTalkative
	case err == nil:
		return stdout.kept, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	default:
		return nil, complaint(err, stdout.kept, string(stderr.kept))
	}
}

const (
	maxAnswerOf  = 1 << 20 // more than any CNI result
	maxComplaint = 4 << 10 // of standard error, and of an error in all
)

var errTalkative = fmt.Errorf("it wrote more than %d KiB, and was stopped", maxAnswerOf>>10)

// output keeps the beginning of what a plugin writes. It calls full, once or more, for the rest.
type output struct {
	kept       []byte
	most       int
	full       func()
	overflowed bool
}

func (o *output) Write(b []byte) (int, error) {
	keep := min(len(b), o.most-len(o.kept))
	if keep < len(b) {
		o.overflowed = true
		o.full()
	}
	o.kept = append(o.kept, b[:keep]...)
	return len(b), nil
}

// complaint returns the error of a failed plugin: its own message, or its output.
func complaint(err error, stdout []byte, stderr string) error {
	said := &types.Error{}
	if json.Unmarshal(stdout, said) == nil && said.Msg != "" {
		return text.Error(said)
	}
	return fmt.Errorf("%w: %s", err, text.Foreign(string(stdout)+stderr))
}
