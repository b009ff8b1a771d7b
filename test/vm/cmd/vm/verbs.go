package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
)

func newFlags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

func parse(f *flag.FlagSet, argv []string) error {
	if err := f.Parse(argv); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return nil
}

func build(ctx context.Context, argv []string, stdout, stderr io.Writer) (int, error) {
	o := vm.Options{Progress: stderr}
	f := newFlags("build")
	f.BoolVar(&o.Renew, "renew", false, "")
	f.StringVar(&o.Mirror, "mirror", "", "")
	if err := parse(f, argv); err != nil {
		return 0, err
	}
	if f.NArg() > 0 {
		return 0, fmt.Errorf("%w: build takes no operand", errUsage)
	}
	v, err := vm.Build(ctx, o)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Fprintf(stdout, "kernel %s, podman %s, runc %s, crun %s, rdma-core %s\n",
		v.Kernel(), v.Package("podman"), v.Package("runc"), v.Package("crun"), v.Package("libibverbs1"))
	return 0, err
}

// machine is what run and capture share.
type machine struct {
	vm.Cmd
	rdma string
}

func (m *machine) register(f *flag.FlagSet) {
	f.StringVar(&m.rdma, "rdma", "rxe0:eth0 rxe1:dummy0", "")
	f.IntVar(&m.MemoryMB, "mem", 0, "")
	f.IntVar(&m.CPUs, "cpus", 0, "")
	f.DurationVar(&m.Timeout, "timeout", 0, "")
}

// devices parses --rdma.
func (m *machine) devices() error {
	for _, pair := range strings.Fields(m.rdma) {
		name, netdev, ok := strings.Cut(pair, ":")
		if !ok || name == "" || netdev == "" {
			return fmt.Errorf("%w: --rdma %q: want DEVICE:NETDEV, such as rxe0:eth0", errUsage, pair)
		}
		if kind := strings.TrimRight(name, "0123456789"); !slices.Contains([]string{"rxe", "rxm", "siw"}, kind) {
			return fmt.Errorf("%w: --rdma %q: want a device named rxeN, rxmN or siwN", errUsage, pair)
		}
		m.Devices = append(m.Devices, vm.Device{Name: name, Netdev: netdev})
	}
	return nil
}

func execute(ctx context.Context, argv []string, stdout, stderr io.Writer) (int, error) {
	m := machine{}
	f := newFlags("run")
	m.register(f)
	share := func(readOnly bool) func(string) error {
		return func(dir string) error {
			m.Shares = append(m.Shares, vm.Share{Path: dir, ReadOnly: readOnly})
			return nil
		}
	}
	f.Func("share", "", share(false))
	f.Func("share-ro", "", share(true))
	f.Func("env", "", func(v string) error {
		m.Env = append(m.Env, v)
		return nil
	})
	if err := parse(f, argv); err != nil {
		return 0, err
	}
	if err := m.devices(); err != nil {
		return 0, err
	}
	if m.Argv = f.Args(); len(m.Argv) == 0 {
		return 0, fmt.Errorf("%w: run wants a COMMAND", errUsage)
	}
	if len(m.Shares) == 0 {
		dir, err := os.Getwd()
		if err != nil {
			return 0, err
		}
		m.Dir, m.Shares = dir, []vm.Share{{Path: dir}}
	}
	v, err := open(ctx, stderr)
	if err != nil {
		return 0, err
	}
	m.Stdout, m.Stderr = stdout, stderr
	return v.Run(ctx, m.Cmd)
}

// open checks the host before it builds anything.
func open(ctx context.Context, stderr io.Writer) (*vm.VM, error) {
	if err := vm.Check(); err != nil {
		return nil, err
	}
	return vm.Build(ctx, vm.Options{Progress: stderr})
}

// capture runs tools/machine in the guest.
func capture(ctx context.Context, argv []string, stdout, stderr io.Writer) (int, error) {
	m := machine{}
	var name, description string
	f := newFlags("capture")
	m.register(f)
	f.StringVar(&name, "name", "", "")
	f.StringVar(&description, "description", "", "")
	if err := parse(f, argv); err != nil {
		return 0, err
	}
	if err := m.devices(); err != nil {
		return 0, err
	}
	if f.NArg() != 1 || name == "" || description == "" {
		return 0, fmt.Errorf("%w: capture wants --name NAME --description FILE DIR", errUsage)
	}
	dir, err := os.MkdirTemp("", "vm-capture-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := prepareCapture(ctx, dir, description); err != nil {
		return 0, err
	}
	v, err := open(ctx, stderr)
	if err != nil {
		return 0, err
	}
	m.Dir, m.Shares = dir, []vm.Share{{Path: dir}}
	m.Argv = []string{"./machine", "--machines", ".", "capture", "--name", name, "--description", "description"}
	m.Stdout, m.Stderr = stdout, stderr
	code, err := v.Run(ctx, m.Cmd)
	if err != nil || code != 0 {
		return code, err
	}
	archive, err := os.ReadFile(filepath.Join(dir, name+".txtar"))
	if err != nil {
		return 0, err
	}
	return 0, os.WriteFile(filepath.Join(f.Arg(0), name+".txtar"), archive, 0o644)
}

// prepareCapture puts the tool and the description into the directory that is shared.
func prepareCapture(ctx context.Context, dir, description string) error {
	text, err := os.ReadFile(description)
	if err != nil {
		return fmt.Errorf("read the machine's description: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "description"), text, 0o644); err != nil {
		return err
	}
	checkout, err := deploy.FindCheckout()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(dir, "machine"), "./tools/machine")
	cmd.Dir = string(checkout)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile tools/machine: %w\n%s", err, out)
	}
	return nil
}
