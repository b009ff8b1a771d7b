package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
)

// openUevents opens the source of kernel events. Tests replace it.
var openUevents func() (io.ReadCloser, error) = watch.OpenUevents

// settled is the time without events before a scan. An earlier scan would find an incomplete device, and omit it with a
// warning.
const settled = 100 * time.Millisecond

// portInterval is the interval of scans without an event. Some changes cause no event.
const portInterval = time.Minute

// soon is the interval after a scan with an error, maxSoon times after an event: udev may make a node later than the
// kernel sends the event.
const (
	soon    = time.Second
	maxSoon = 10
)

// needPerson are the exit codes for faults that only a person can mend. The unit does not restart watch after them.
var needPerson = []int{exitUsage, exitHook}

func newWatch() *cobra.Command {
	var flags specFlags
	var out outputFlags
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Keep the CDI spec right while devices come and go",
		Long: `Write the spec as generate --to does, and again each time that RDMA devices come or go.
watch removes the spec while there is no device. A signal ends it.`,
		Example: "  cdi-gen watch --to /var/run/cdi",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out.toStdout() {
				return cli.Usagef("watch keeps a file right: name it, or its directory, with --to")
			}
			flags.host.allowAbsent, out.quiet = true, true
			r, err := flags.request(cmd, out)
			if err != nil {
				return err
			}
			return runWatch(cmd, r)
		},
	}
	flags.register(cmd.Flags())
	out.register(cmd.Flags())
	return cmd
}

// runWatch writes the spec at each signal until the context ends. A usage error, or a missing hook, at the first write
// ends it. Later such errors are retried, because the file of a flag may be missing for a moment. When runWatch
// returns, its goroutines have ended.
func runWatch(cmd *cobra.Command, r *request) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	failures := make(chan error)
	signals := watch.Start(ctx, watch.Config{Uevents: openUevents, Quiet: settled, Storm: settled,
		Report: func(err error) {
			select {
			case failures <- err:
			case <-ctx.Done():
			}
		}}).Signals()
	defer func() {
		cancel()
		for range signals {
		}
	}()
	ticker := time.NewTicker(portInterval)
	defer ticker.Stop()
	last, again, warn := "", 0, warnOnce(cmd)
	for first := true; ; first = false {
		err := generate(cmd, r, false, warn)
		if c, ok := errors.AsType[*cli.Coded](err); ok && slices.Contains(needPerson, c.Code) && first {
			return err
		}
		// Print the same error once, not with each event.
		text := fmt.Sprint(err)
		if err != nil && text != last {
			cmd.PrintErrln("cdi-gen:", text)
		}
		last = text
		if again++; err != nil && again <= maxSoon {
			ticker.Reset(soon)
		} else {
			ticker.Reset(portInterval)
		}
		if first {
			if err := notifyReady(os.Getenv("NOTIFY_SOCKET")); err != nil {
				cmd.PrintErrln("cdi-gen:", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-signals:
			if !ok {
				return nil
			}
			again = 0
		case <-ticker.C:
		case err := <-failures:
			cmd.PrintErrln("cdi-gen: kernel events:", err)
		}
	}
}

// notifyReady reports to systemd that the spec exists (sd_notify(3)), so that units that start containers at boot can
// wait for it. Without a socket it does nothing.
func notifyReady(socket string) error {
	if socket == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", socket) // "@" begins the name of an abstract socket
	if err == nil {
		defer conn.Close()
		_, err = conn.Write([]byte("READY=1"))
	}
	if err != nil {
		return fmt.Errorf("tell systemd that the spec is there: %w", err)
	}
	return nil
}
