// Package pki makes the certificates, keys and kubeconfig files of the embedded
// cluster: one authority, ECDSA P-256, valid for as long as a test cluster may
// live. Everything goes to one directory, private keys with mode 0600.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const validity = 365 * 24 * time.Hour

// Config says whom the certificates are for.
type Config struct {
	// Dir receives the files; it is created.
	Dir string
	// Nodes have certificates of their own: kubelet-NAME and kubelet-serving-NAME.
	Nodes []Node
	// ServiceIP is the API server's address within the cluster.
	ServiceIP string
	// Server is the API server's URL in the kubeconfig files.
	Server string
}

// Node is a node's name and address.
type Node struct{ Name, IP string }

// leaf is one certificate to be signed.
type leaf struct {
	name, cn, org string
	ips           []string
	dns           []string
	kubeconfig    bool
}

func (c Config) leaves() []leaf {
	serving := []string{"127.0.0.1", c.ServiceIP}
	var nodes []leaf
	for _, n := range c.Nodes {
		serving = append(serving, n.IP)
		user := "system:node:" + n.Name
		nodes = append(nodes,
			leaf{
				name: "kubelet-serving-" + n.Name, cn: user, org: "system:nodes",
				ips: []string{"127.0.0.1", n.IP}, dns: []string{n.Name},
			},
			leaf{name: "kubelet-" + n.Name, cn: user, org: "system:nodes", kubeconfig: true})
	}
	return append(nodes, []leaf{
		{name: "apiserver", cn: "kube-apiserver", ips: serving, dns: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		{name: "kubelet-client", cn: "apiserver-kubelet-client", org: "system:masters"},
		{name: "front-proxy", cn: "front-proxy-client"},
		{name: "admin", cn: "admin", org: "system:masters", kubeconfig: true},
		{name: "controller-manager", cn: "system:kube-controller-manager", kubeconfig: true},
		{name: "scheduler", cn: "system:kube-scheduler", kubeconfig: true},
	}...)
}

// Write makes <name>.crt, <name>.key and <name>.kubeconfig for every party, ca.crt,
// and the key pair sa.key, sa.pub of the service accounts.
func Write(c Config) error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("create the directory of the certificates: %w", err)
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	if err := c.write("ca.crt", "CERTIFICATE", ca.cert.Raw, 0o644); err != nil {
		return err
	}
	for i, l := range c.leaves() {
		if err := c.issue(ca, l, int64(i)+2); err != nil {
			return fmt.Errorf("issue certificate %q: %w", l.name, err)
		}
	}
	return c.serviceAccountKeys()
}

// Copy takes over the certificates and keys of another directory, which need not be of this
// machine, with kubeconfig files for the server of c.
func Copy(from string, c Config) error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("create the directory of the certificates: %w", err)
	}
	names := []string{"ca.crt", "sa.key", "sa.pub"}
	for _, l := range c.leaves() {
		names = append(names, l.name+".crt", l.name+".key")
		if l.kubeconfig {
			if err := c.kubeconfig(l.name); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(c.path(name), data, 0o600)
		}
		if err != nil {
			return fmt.Errorf("take over key material: %w", err)
		}
	}
	return nil
}

type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate the authority's key: %w", err)
	}
	t := template(1, "dra-driver-rdma-test-ca", "")
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{key: key, cert: cert}, err
}

func template(serial int64, cn, org string) *x509.Certificate {
	t := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: cn},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(validity),
	}
	if org != "" {
		t.Subject.Organization = []string{org}
	}
	return t
}

func (c Config) issue(ca *authority, l leaf, serial int64) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	t := template(serial, l.cn, l.org)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(l.ips) > 0 {
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	t.DNSNames = l.dns
	for _, ip := range l.ips {
		t.IPAddresses = append(t.IPAddresses, net.ParseIP(ip))
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca.cert, key.Public(), ca.key)
	if err != nil {
		return err
	}
	if err := c.write(l.name+".crt", "CERTIFICATE", der, 0o644); err != nil {
		return err
	}
	if err := c.writeKey(l.name+".key", key); err != nil {
		return err
	}
	if !l.kubeconfig {
		return nil
	}
	return c.kubeconfig(l.name)
}

func (c Config) serviceAccountKeys() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate the service account key: %w", err)
	}
	if err := c.writeKey("sa.key", key); err != nil {
		return err
	}
	pub, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return c.write("sa.pub", "PUBLIC KEY", pub, 0o644)
}

func (c Config) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return c.write(name, "EC PRIVATE KEY", der, 0o600)
}

func (c Config) write(name, kind string, der []byte, mode os.FileMode) error {
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(filepath.Join(c.Dir, name), data, mode); err != nil {
		return fmt.Errorf("write key material: %w", err)
	}
	return nil
}

func (c Config) kubeconfig(name string) error {
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: cluster, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: user, user: {client-certificate: %q, client-key: %q}}]
contexts: [{name: cluster, context: {cluster: cluster, user: user}}]
current-context: cluster
`, c.Server, c.path("ca.crt"), c.path(name+".crt"), c.path(name+".key"))
	if err := os.WriteFile(c.path(name+".kubeconfig"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

func (c Config) path(name string) string { return filepath.Join(c.Dir, name) }
