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
)

// TestEgress: the API server reaches the kubelet by a proxy, whatever address the node says it
// has.
func TestEgress(t *testing.T) {
	kubelet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "logs of "+r.URL.Path) }))
	defer kubelet.Close()
	cp := &ControlPlane{dir: t.TempDir()}
	flag, err := cp.reachNode(kubelet.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, path, _ := strings.Cut(flag, "=")
	config, err := os.ReadFile(path)
	socket := filepath.Join(cp.dir, "egress.sock")
	if err != nil || !strings.Contains(string(config), socket) {
		t.Errorf("the configuration is %s, %v", config, err)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	from := bufio.NewReader(conn)
	for _, request := range []string{"CONNECT 10.99.0.1:10250 HTTP/1.1\r\nHost: 10.99.0.1:10250\r\n\r\n", "GET /pod HTTP/1.1\r\nHost: node1\r\n\r\n"} {
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(from, &http.Request{Method: strings.Fields(request)[0]})
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v", request, r, err)
		}
		if strings.HasPrefix(request, "CONNECT") {
			continue // its answer has no body
		}
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != "logs of /pod" {
			t.Errorf("the kubelet says %q, %v", body, err)
		}
	}
	if err := cp.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("unix", socket); err == nil {
		t.Error("the proxy of a control plane that ended serves")
	}
}
