// Package kubectl runs kubectl in the calling process. As a program it takes a quarter of a second of processor time
// before it asks the API server anything, and the tests on clusters ask two thousand times.
package kubectl

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// Client is kubectl for one API server.
type Client struct {
	// Kubeconfig is a file.
	Kubeconfig string
	// Server is the API server's URL for this process where it is not that of Kubeconfig. Its certificate is for
	// ServerName.
	Server, ServerName string
	// Cache is the directory where kubectl keeps what it learns of the API.
	Cache string
}

// exit is what kubectl panics with in the place of an end of the process.
type exit struct {
	message string
	code    int
}

func init() {
	util.BehaviorOnFatal(func(message string, code int) { panic(exit{message, code}) })
}

// Fits says whether Run can stand for the program. It cannot for "auth can-i", which ends its process by itself, and
// with another server, whose address may be another one here.
func Fits(args []string) bool {
	return !slices.ContainsFunc(args, func(a string) bool { return a == "auth" || strings.HasPrefix(a, "--server") })
}

// Run does what kubectl does with these arguments, "-f -" with input among them. The error has the exit status that the
// program would have.
func (c Client) Run(ctx context.Context, input string, stdout, stderr io.Writer, args ...string) (err error) {
	if i := slices.Index(args, "-"); i > 0 && args[i-1] == "-f" {
		dir, err := os.MkdirTemp("", "kubectl-") // kubectl reads the process's standard input, whatever it is told
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "manifest.yaml")
		if err := os.WriteFile(file, []byte(input), 0o600); err != nil {
			return err
		}
		args = slices.Clone(args)
		args[i] = file
	}
	// As the program has it.
	flags := genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50)
	flags.KubeConfig, flags.CacheDir = &c.Kubeconfig, &c.Cache
	flags.APIServer, flags.TLSServerName = &c.Server, &c.ServerName
	command := cmd.NewKubectlCommand(cmd.KubectlOptions{
		ConfigFlags: flags,
		IOStreams:   genericiooptions.IOStreams{In: strings.NewReader(""), Out: stdout, ErrOut: stderr},
	})
	command.SetArgs(args)
	command.SetOut(stdout)
	command.SetErr(stderr)
	defer func() {
		switch e := recover().(type) {
		case nil:
		case exit:
			fmt.Fprintln(stderr, strings.TrimSuffix(e.message, "\n"))
			err = fmt.Errorf("exit status %d", e.code)
		default:
			panic(e)
		}
	}()
	return command.ExecuteContext(ctx)
}
