package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// kubectl asks drivers by kubectl, which reaches into pods through proxies that only kubectl knows.
type kubectl struct {
	flags   []string      // they choose the same API server and user as those of this program
	timeout time.Duration // for each answer; not 0
}

// kubectlFlags returns the flags that are set, but for the namespace and the flag of this program.
func kubectlFlags(flags *pflag.FlagSet) (out []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "namespace" && f.Name != driverNamespace {
			out = append(out, "--"+f.Name+"="+f.Value.String())
		}
	})
	return out
}

// atOnce is how many drivers are asked at the same time.
const atOnce = 16

// askEach calls ask with the index of each driver's pod, for some drivers at the same time.
func askEach(pods []corev1.Pod, ask func(i int)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range pods {
		slots <- struct{}{}
		all.Go(func() {
			ask(i)
			<-slots
		})
	}
	all.Wait()
}

// maxPrinted bounds what a program in a pod prints.
const maxPrinted = 64 << 20

// exec runs dra-driver in the pod of a driver. It returns what the driver prints, its error, and its exit code, -1 for
// none.
func (k kubectl) exec(ctx context.Context, pod *corev1.Pod, stdin []byte, args ...string) ([]byte, string, int) {
	all := []string{
		"exec", "-i", "--quiet", "--namespace=" + pod.Namespace, pod.Name, "--container=driver", "--", "dra-driver",
	}
	return k.run(ctx, stdin, slices.Concat(all, args, kubeletDir(pod))...)
}

// logs returns the end of the log of a driver, of at most so many bytes, or that of the container before it.
func (k kubectl) logs(ctx context.Context, pod *corev1.Pod, previous bool, bytes int) ([]byte, string, int) {
	return k.run(ctx, nil, "logs", "--namespace="+pod.Namespace, pod.Name, "--container=driver",
		fmt.Sprintf("--previous=%t", previous), "--tail=20000", fmt.Sprintf("--limit-bytes=%d", bytes))
}

// run runs kubectl. It returns what it prints, its error, and its exit code, -1 for none.
func (k kubectl) run(ctx context.Context, stdin []byte, args ...string) (out []byte, said string, code int) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", slices.Concat(k.flags, args)...)
	stdout, stderr := &limited{most: maxPrinted}, &limited{most: 1 << 20}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), stdout, stderr
	err := cmd.Run()
	said = messageOf(string(stderr.kept))
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return stdout.kept, said, exit.ExitCode()
	} else if err != nil {
		return nil, fmt.Sprintf("run kubectl %s: %v", args[0], err), -1
	}
	return stdout.kept, "", 0
}

// limited keeps the beginning of what is written to it.
type limited struct {
	kept []byte
	most int
}

func (l *limited) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p[:min(len(p), l.most-len(l.kept))]...)
	return len(p), nil
}

// messageOf returns what the driver says, without kubectl's line about its exit code.
func messageOf(stderr string) string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(stderr), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "command terminated with exit code ")
	})
	return text.Bound(strings.TrimPrefix(strings.Join(lines, "\n"), "dra-driver: "), text.MaxForeign)
}

// kubeletDir returns the flag of the driver with which a command finds the driver's socket, nil for its default.
func kubeletDir(pod *corev1.Pod) []string {
	for _, c := range pod.Spec.Containers {
		for _, arg := range c.Args {
			if strings.HasPrefix(arg, "--kubelet-dir=") {
				return []string{arg}
			}
		}
	}
	return nil
}
