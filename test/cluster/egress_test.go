package cluster

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestEgress: the API server reaches each kubelet by a proxy, and nobody else.
func TestEgress(t *testing.T) {
	var kubelets []string
	for n := range 2 {
		kubelet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "logs of %s on node %d", r.URL.Path, n+1)
		}))
		defer kubelet.Close()
		kubelets = append(kubelets, kubelet.Listener.Addr().String())
	}
	cp := &ControlPlane{dir: t.TempDir()}
	flag, err := cp.reachNodes(kubelets)
	must.NoError(t, err)
	_, path, _ := strings.Cut(flag, "=")
	config, err := os.ReadFile(path)
	socket := filepath.Join(cp.dir, "egress.sock")
	if err != nil || !strings.Contains(string(config), socket) {
		t.Errorf("the configuration is %s, %v", config, err)
	}
	for host, want := range map[string]string{
		"10.99.0.1": "logs of /pod on node 1", "10.99.0.2": "logs of /pod on node 2", "10.99.0.3": "", "127.0.0.1": "",
	} {
		test.Eq(t, want, throughProxy(t, socket, host), test.Sprintf("the kubelet at %s", host))
	}
	test.NoError(t, cp.Stop())
	if _, err := net.Dial("unix", socket); err == nil {
		t.Error("the proxy of a control plane that ended serves")
	}
}

// throughProxy is what a kubelet answers, or nothing if the proxy does not connect.
func throughProxy(t *testing.T, socket, host string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	must.NoError(t, err)
	defer conn.Close()
	from := bufio.NewReader(conn)
	ask := func(method, request string) *http.Response {
		_, err := io.WriteString(conn, request)
		must.NoError(t, err)
		r, err := http.ReadResponse(from, &http.Request{Method: method})
		must.NoError(t, err, must.Sprint(request))
		return r
	}
	request := fmt.Sprintf("CONNECT %s:10250 HTTP/1.1\r\nHost: %[1]s:10250\r\n\r\n", host)
	if ask("CONNECT", request).StatusCode != http.StatusOK {
		return ""
	}
	body, err := io.ReadAll(ask("GET", "GET /pod HTTP/1.1\r\nHost: node\r\n\r\n").Body)
	must.NoError(t, err)
	return string(body)
}
