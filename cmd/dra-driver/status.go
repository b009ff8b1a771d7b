package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/sockets"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
)

// status reads the status page of a running driver through a socket. A user who may run programs in the driver's pod
// may read the page, even if the driver has no HTTP address.
type status struct {
	cfg     dra.Config
	output  string
	timeout time.Duration
}

var statusCodes = exitcode.List{exitcode.OK: "done", exitcode.Failed: "failed", exitcode.Usage: exitcode.BadUsage}

func newStatus(env func(string) string) *cobra.Command {
	s := &status{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print the status page of the driver of this pod",
		Long: `status prints the status page of the running driver: problems, HCAs and their health,
prepared claims with their pods, and the last events. The JSON form also has the
positions of HCAs and accelerators.

` + statusCodes.Help(),
		Example: `  kubectl -n dra-driver-rdma exec dra-driver-rdma-x7k2p -- dra-driver status`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(nodestatus.Formats, s.output) {
				return cli.Usagef("--output %q: want one of %v", s.output, nodestatus.Formats)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), s.timeout)
			defer cancel()
			return s.print(ctx, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.cfg.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "root `DIRECTORY` of the kubelet")
	f.StringVar((*string)(&s.cfg.PodUID), "pod-uid", env("POD_UID"), "`UID` of the driver's pod (default $POD_UID)")
	f.StringVarP(&s.output, "output", "o", "table", "`FORMAT`: table, json or yaml")
	f.DurationVar(&s.timeout, "timeout", 30*time.Second, "`TIME` for the answer")
	return cmd
}

// statusSocket returns the path of the driver's status socket.
func statusSocket(cfg *dra.Config) string {
	name := "status.sock"
	if cfg.PodUID != "" {
		name = "status-" + string(cfg.PodUID) + ".sock"
	}
	return filepath.Join(cfg.PluginDir(), name)
}

func (s *status) print(ctx context.Context, out io.Writer) error {
	page := url.URL{Path: nodestatus.Path, RawQuery: url.Values{"o": {s.output}}.Encode()}
	body, err := askDriver(ctx, statusSocket(&s.cfg), "its status", http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(out, body); err != nil {
		return fmt.Errorf("print the status: %w", err)
	}
	return nil
}

// askDriver sends a request to the driver's socket, and returns the body of the answer. The caller must close it.
func askDriver(ctx context.Context, socket, what, method string, where url.URL, send io.Reader) (io.ReadCloser, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	where.Scheme, where.Host = "http", "driver"
	req, err := http.NewRequestWithContext(ctx, method, where.String(), send)
	if err != nil {
		return nil, fmt.Errorf("ask the driver for %s: %w", what, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the driver for %s at %q: %w; is it running, and is this its pod?", what, socket,
			errors.Unwrap(err))
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		_ = resp.Body.Close()
		return nil, fmt.Errorf("ask the driver for %s at %q: %s: %s", what, socket, resp.Status, text)
	}
	return resp.Body, nil
}

// serveStatus serves the status page, and the slices of other policies, on a socket. The caller must call
// stop. Only root can open the socket's directory. If the socket fails, the driver runs without it.
func serveStatus(ctx context.Context, socket string, page, slices http.Handler) (stop func()) {
	_, err := sockets.Sweep(0, socket) // an earlier container of this pod may have left the socket
	var listener net.Listener
	if err == nil {
		listener, err = new(net.ListenConfig).Listen(ctx, "unix", socket)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "No status on a socket")
		return func() {}
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+nodestatus.Path, page)
	mux.Handle("POST "+slicesPath, slices)
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // it ends by Close
	return func() { _ = server.Close(); serving.Wait() }
}
