package pki

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	c := Config{
		Dir: dir, Nodes: []Node{{"n", "10.99.0.1"}, {"m", "10.99.0.2"}},
		ServiceIP: "10.96.0.1", Server: "https://10.96.0.1:443",
	}
	must.NoError(t, Write(c))
	roots := x509.NewCertPool()
	roots.AddCert(read(t, dir, "ca"))
	for _, tt := range []struct {
		name, cn, org string
		usage         x509.ExtKeyUsage
		host          string
	}{
		{"apiserver", "kube-apiserver", "", x509.ExtKeyUsageServerAuth, "10.96.0.1"},
		{"apiserver", "kube-apiserver", "", x509.ExtKeyUsageServerAuth, "kubernetes.default.svc"},
		{"kubelet-serving-n", "system:node:n", "system:nodes", x509.ExtKeyUsageServerAuth, "10.99.0.1"},
		{"kubelet-n", "system:node:n", "system:nodes", x509.ExtKeyUsageClientAuth, ""},
		{"kubelet-serving-m", "system:node:m", "system:nodes", x509.ExtKeyUsageServerAuth, "10.99.0.2"},
		{"kubelet-m", "system:node:m", "system:nodes", x509.ExtKeyUsageClientAuth, ""},
		{"admin", "admin", "system:masters", x509.ExtKeyUsageClientAuth, ""},
	} {
		cert := read(t, dir, tt.name)
		_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: tt.host, KeyUsages: []x509.ExtKeyUsage{tt.usage}})
		test.NoError(t, err, test.Sprintf("%s for %q", tt.name, tt.host))
		if org := strings.Join(cert.Subject.Organization, ","); cert.Subject.CommonName != tt.cn || org != tt.org {
			t.Errorf("%s: subject %s", tt.name, cert.Subject)
		}
	}
	keys, err := filepath.Glob(filepath.Join(dir, "*.key"))
	if err != nil || len(keys) != 11 {
		t.Errorf("keys: %v %v", keys, err)
	}
	for _, key := range keys {
		if info, err := os.Stat(key); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v %v", key, info.Mode(), err)
		}
	}
}

func read(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name+".crt"))
	must.NoError(t, err)
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	must.NoError(t, err)
	return cert
}

// TestCopy: a node elsewhere has the same authority and keys, its own way to the server, and no key of another node.
func TestCopy(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	there := Config{
		Dir: from, Nodes: []Node{{"node1", "10.0.0.1"}, {"node2", "10.0.0.2"}},
		ServiceIP: "10.96.0.1", Server: "https://127.0.0.1:1234",
	}
	must.NoError(t, Write(there))
	here := there
	here.Dir, here.Nodes, here.Server = to, there.Nodes[1:], "https://10.96.0.1:443"
	must.NoError(t, Copy(from, here))
	for _, name := range []string{
		"ca.crt", "kubelet-node2.crt", "kubelet-node2.key", "kubelet-serving-node2.key", "sa.pub",
	} {
		want, err := os.ReadFile(filepath.Join(from, name))
		must.NoError(t, err)
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s is another one: %v", name, err)
		}
	}
	if others, err := filepath.Glob(filepath.Join(to, "*node1*")); err != nil || len(others) > 0 {
		t.Errorf("there is %v of another node, %v", others, err)
	}
	config, err := os.ReadFile(filepath.Join(to, "kubelet-node2.kubeconfig"))
	if err != nil || !strings.Contains(string(config), here.Server) || strings.Contains(string(config), from) {
		t.Errorf("the kubeconfig says %s, %v", config, err)
	}
	test.ErrorContains(t, Copy(t.TempDir(), here), "take over key material", test.Sprint("from an empty directory"))
}
