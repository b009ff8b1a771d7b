package webserver

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// ownHosts returns a handler that calls next only for requests to a host of this server. A page of somebody else can
// make a browser resolve the page's own name to the address of this server (DNS rebinding). The browser then treats the
// answers of this server as parts of that page, whose scripts may read them. Such a request has the name of that page as
// its host.
//
// An IP address is always allowed: a name that resolves to it is no such host. Probes and Prometheus use addresses.
func (s *Server) ownHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := hostOf(r.Host); !s.owns(host) {
			rate(r.Context(), false)
			http.Error(w, fmt.Sprintf("this server does not answer for the host %.100q: use an IP address of the node, "+
				"localhost, the name of the node, or a name of the server's own certificate", host),
				http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf returns the host of a Host header, without port, brackets and the dot of a full name.
func hostOf(header string) string {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func (s *Server) owns(host string) bool {
	if host == "" { // HTTP/1.0, which no browser sends
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	own, _, _ := net.SplitHostPort(s.Address)
	for _, name := range append([]string{"localhost", own}, s.Names...) {
		if name != "" && strings.EqualFold(host, name) {
			return true
		}
	}
	return s.certifies(host)
}

// certifies reports whether the certificate of the files is for a name. Its owner has proven to own the name.
func (s *Server) certifies(host string) bool {
	if s.CertFile == "" {
		return false
	}
	pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	return err == nil && pair.Leaf.VerifyHostname(host) == nil
}
