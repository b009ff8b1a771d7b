// Package apiclient connects the driver to the API server. It adds to client-go what a node agent needs, because the
// agent lives longer than its token, and its server sometimes fails:
//
//   - If the server refuses a token, the package reads the token again at once. It repeats the request if there is a
//     newer token. client-go itself continues with the old token for up to one minute.
//   - A request without an answer ends. client-go waits for as long as the connection lives, and a server that hangs
//     keeps the connection alive.
//   - [Troubles] records the problems with the server: which kind of request fails for which reason, since when, and
//     how often. The log, the probe and the metrics report them.
//
// The package implements all of this in the transport. So it also applies to informers, to the libraries of Kubernetes,
// and to the driver's own requests.
package apiclient

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// New makes a client, and the record of its present problems with the server. It sends no request, and does not change
// the configuration.
func New(config *rest.Config) (kubernetes.Interface, *Troubles, error) {
	troubles := &Troubles{}
	config = rest.CopyConfig(config)
	if path := config.BearerTokenFile; path != "" {
		config.BearerToken, config.BearerTokenFile = "", ""
		source := transport.NewCachedFileTokenSource(path)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &renewing{next, source} })
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &observing{next, troubles, answerTime} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of %q: %w", config.Host, err)
	}
	return client, troubles, nil
}
