package statuspage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// contentTypes of the formats.
var contentTypes = map[string]string{
	"html": "text/html; charset=utf-8", "json": "application/json", "table": "text/plain; charset=utf-8",
}

// policy allows the browser the two style sheets of the page, and nothing else: no script,
// no request, no frame around it.
var policy = fmt.Sprintf(
	"default-src 'none'; style-src %s %s; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	hashOf(style), hashOf(topology.StyleSheet))

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Handler makes a new page for each request. It answers one request at a time, so that frequent requests do not read
// the host concurrently. The query parameter o sets the format. Without it, the request's Accept header selects
// HTML or JSON.
func Handler(look func(context.Context) *Page) http.Handler {
	var one sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		format := r.URL.Query().Get("o")
		if format == "" {
			format = accepted(r.Header.Get("Accept"))
		}
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Vary", "Accept")
		h.Set("X-Content-Type-Options", "nosniff")
		if !slices.Contains(Formats, format) {
			http.Error(w, fmt.Sprintf("unknown format o=%.20q: want one of %v", format, Formats), http.StatusBadRequest)
			return
		}
		one.Lock()
		defer one.Unlock()
		if r.Context().Err() != nil {
			return // the client left while it waited
		}
		var body bytes.Buffer
		if err := look(r.Context()).Write(&body, format); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.Set("Content-Type", contentTypes[format])
		_, _ = w.Write(body.Bytes()) // the client may have left
	})
}

// accepted returns json for a request that accepts JSON before HTML, and html for all
// others.
func accepted(accept string) string {
	for kind := range strings.SplitSeq(accept, ",") {
		kind, _, _ = strings.Cut(kind, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "text/html":
			return "html"
		case "application/json":
			return "json"
		}
	}
	return "html"
}
