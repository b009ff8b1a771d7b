// Package apiclient is the driver's way to the API server. It adds to client-go what
// a node agent needs that lives longer than its token, and whose server is not always
// well:
//
//   - A token that the server refuses is read anew at once, and the request is repeated
//     if there is another one. client-go itself goes on with the old one for up to a
//     minute.
//   - A request that gets no answer ends. client-go waits for as long as the connection
//     lives, and a server that hangs keeps it alive.
//   - [Troubles] know what is wrong with the server: what kind of request meets what, since
//     when, how often. Log, probe and metrics tell it from there.
//
// All of it is in the transport, so it holds for informers, for the libraries of
// Kubernetes and for what the driver asks itself.
package apiclient

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// Client is a client of the API server that knows of its troubles.
type Client struct {
	kubernetes.Interface
	// Troubles is what is wrong with the server.
	Troubles *Troubles
}

// New makes a client. It sends nothing, and leaves the configuration as it is.
func New(config *rest.Config) (*Client, error) {
	c := &Client{Troubles: &Troubles{}}
	config = rest.CopyConfig(config)
	if path := config.BearerTokenFile; path != "" {
		config.BearerToken, config.BearerTokenFile = "", ""
		source := transport.NewCachedFileTokenSource(path)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &renewing{next, source} })
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &observing{next, c.Troubles, answerTime} })
	var err error
	if c.Interface, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make a client of %q: %w", config.Host, err)
	}
	return c, nil
}
