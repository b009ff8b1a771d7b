package nodestatus

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// contentTypes of the formats.
var contentTypes = map[string]string{
	"json": "application/json", "yaml": "application/yaml", "table": "text/plain; charset=utf-8",
}

// Handler makes a new status for each request. It answers one request at a time, so that frequent requests do not read
// the host concurrently. The query parameter o sets the format. Without it, a request that accepts JSON gets JSON, and
// others get tables.
func Handler(look func(context.Context) *Status) http.Handler {
	var one sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		format := r.URL.Query().Get("o")
		if format == "" {
			format = "table"
			if strings.Contains(strings.ToLower(r.Header.Get("Accept")), "application/json") {
				format = "json"
			}
		}
		h := w.Header()
		h.Set("Cache-Control", "no-store")
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
