package webserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// Server serves HTTP at one address.
type Server struct {
	// Address is host:port. An empty host means all addresses of the node.
	Address string
	// CertFile and KeyFile are for TLS. The server reads them again for each connection, so that it uses a renewed
	// certificate at once. Without them it makes a self-signed certificate.
	CertFile, KeyFile string
	// Names are the names of the node. The server answers only requests to one of them, to localhost, to an IP address, or
	// to a name of the certificate of CertFile.
	Names []string
	// Client asks the API server who may read.
	Client kubernetes.Interface
	// Handler serves the requests of allowed users.
	Handler http.Handler
}

// Validate returns an error for invalid settings.
func (s *Server) Validate() error {
	if _, _, err := net.SplitHostPort(s.Address); err != nil {
		return fmt.Errorf("address %q: %w; want host:port, such as 127.0.0.1:9485 or :9485", s.Address, err)
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		return errors.New("a TLS certificate needs its key, and a key its certificate: give both files or none")
	}
	return nil
}

// How long to wait before binding again: while another instance uses the address, and after any other error.
const (
	retryInUse = 250 * time.Millisecond
	retryOther = 10 * time.Second
)

// The time limits for clients, and for requests in progress at the shutdown.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	shutdownTime = 3 * time.Second
	maxHeader    = 16 << 10 // a service account token has about one kilobyte
)

// Run serves until ctx ends. It starts a failed server again.
func (s *Server) Run(ctx context.Context) {
	for {
		listener := s.bind(ctx)
		if listener == nil {
			return
		}
		if err := s.serve(ctx, listener); err != nil {
			klog.FromContext(ctx).Error(err, "HTTP server has ended, starting it again", "address", s.Address)
		}
		if !loop.Sleep(ctx, retryOther) {
			return
		}
	}
}

// bind listens as soon as the address is free. It returns nil if ctx ends first.
func (s *Server) bind(ctx context.Context) net.Listener {
	logger := klog.FromContext(ctx)
	said := ""
	for {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Address)
		if err == nil {
			logger.Info("Serving HTTP", "address", listener.Addr().String())
			return listener
		}
		interval := retryOther
		if errors.Is(err, syscall.EADDRINUSE) {
			interval = retryInUse
		}
		if err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			logger.Info("Address in use, retrying: another instance of the driver may still serve it", "address", s.Address,
				"reason", said)
		}
		if !loop.Sleep(ctx, interval) {
			return nil
		}
	}
}

// serve serves requests until ctx ends.
func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.ownHosts(s.Handler), ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, Protocols: new(http.Protocols), ErrorLog: quiet(), ConnContext: withConnection,
	}
	server.Protocols.SetHTTP1(true)
	listener = &connections{Listener: listener}
	if !local(listener.Addr()) {
		config, err := s.tls()
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		server.Handler = s.ownHosts(newGuard(s.Client, clock.RealClock{}).protect(s.Handler))
		listener = tls.NewListener(listener, config)
	}
	var done sync.WaitGroup
	done.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer done.Done()
		// Shutdown closes the listener first, because another instance may wait for the address.
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(listener)
	if stop() {
		done.Done()
	}
	done.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve HTTP at %s: %w", s.Address, err)
}

// local reports whether an address is reachable only from the node itself.
func local(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// tls returns the TLS settings.
func (s *Server) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CertFile != "" {
		config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
			return &pair, err
		}
		return config, nil
	}
	host, _, _ := net.SplitHostPort(s.Address)
	cert, key, err := certutil.GenerateSelfSignedCertKey(cmp.Or(host, "localhost"), nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make a TLS certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("make a TLS certificate: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
