package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/pki"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/sandbox"
)

// egress has the API server reach nodes by a proxy: the nodes' addresses are nowhere on this machine.
const egress = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {uds: {udsName: %q}}
`

// reachNodes starts the proxy, and returns the API server's flag for it. The addresses lead to the nodes' kubelets,
// from node 1 on.
func (cp *ControlPlane) reachNodes(addresses []string) (flag string, err error) {
	socket, config := filepath.Join(cp.dir, "egress.sock"), filepath.Join(cp.dir, "egress.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, egress, socket), 0o600); err != nil {
		return "", fmt.Errorf("write the API server's configuration: %w", err)
	}
	if cp.egress, err = net.Listen("unix", socket); err != nil {
		return "", fmt.Errorf("listen for the API server's calls of the kubelet: %w", err)
	}
	go func() {
		for {
			conn, err := cp.egress.Accept()
			if err != nil {
				return // Stop closed it
			}
			go func() {
				if err := connect(conn, addresses); err != nil {
					fmt.Fprintf(conn, "HTTP/1.1 502 Bad Gateway\r\n\r\n%v", err)
				}
				conn.Close()
			}()
		}
	}()
	return "--egress-selector-config-file=" + config, nil
}

// connect serves one CONNECT request to a node.
func connect(conn net.Conn, addresses []string) error {
	from := bufio.NewReader(conn)
	request, err := http.ReadRequest(from)
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(request.Host)
	if err != nil {
		return err
	}
	known := nodes(len(addresses))
	i := slices.IndexFunc(known, func(n pki.Node) bool { return n.IP == host })
	if i < 0 {
		return fmt.Errorf("connect to %s: the nodes are %v", request.Host, known)
	}
	to, err := net.Dial("tcp", addresses[i])
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return err
	}
	relay(conn, from, to)
	return nil
}

// relay copies what comes from a connection's reader to another connection, and what comes from there back, until that
// one has ended.
func relay(conn io.Writer, from io.Reader, to net.Conn) {
	go func() {
		_, err := io.Copy(to, from)
		_ = errors.Join(err, to.(*net.TCPConn).CloseWrite()) // the other direction ends by it
	}()
	_, _ = io.Copy(conn, to)
}

// Forward gives programs outside of the cluster's network namespace an address of the API server, as long as the
// listener is open. The server's certificate is for ServiceIP.
func (c *Cluster) Forward() (net.Listener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for calls of the API server: %w", err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			go func() {
				defer conn.Close()
				to, err := sandbox.Dial(c.pid, net.JoinHostPort(ServiceIP, "443"))
				if err != nil {
					return // as if nobody listened: the caller tries again
				}
				defer to.Close()
				relay(conn, conn, to)
			}()
		}
	}()
	return listener, nil
}

// Output runs kubectl or helm against the control plane, and returns its standard output; an
// error carries its standard error. It has helm where it has a node.
func (cp *ControlPlane) Output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, lookPath(name, cp.layout.Programs.Path()), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cp.Kubeconfig(), kubectlCache(cp.dir))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("run %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), err
}

// Address is the API server's, host and port.
func (cp *ControlPlane) Address() string { return cp.address }

// Dir is the directory of the control plane, for Options.Join.
func (cp *ControlPlane) Dir() string { return cp.dir }
