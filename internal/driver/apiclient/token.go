package apiclient

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/transport"
)

// renewing adds the token from a file to requests. The kubelet replaces the file long before the token expires. But a
// server may refuse a token earlier, for example after a change of its keys or of a clock. A suspended process may also
// miss the replacement.
type renewing struct {
	next   http.RoundTripper
	source transport.ResettableTokenSource
}

// RoundTrip implements http.RoundTripper.
func (t *renewing) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	token, err := t.source.Token()
	if err != nil {
		closeBody(r)
		return nil, fmt.Errorf("read the token of the service account: %w", err)
	}
	resp, err := t.next.RoundTrip(withToken(r, token.AccessToken, r.Body))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	t.source.ResetTokenOlderThan(began)
	newer, err := t.source.Token()
	if err != nil || newer.AccessToken == token.AccessToken {
		return resp, nil // no newer token; the next request reports a token that cannot be read
	}
	body, ok := bodyAgain(r)
	if !ok {
		return resp, nil
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16)) // for reuse of the connection
	resp.Body.Close()
	return t.next.RoundTrip(withToken(r, newer.AccessToken, body))
}

// WrappedRoundTripper returns the wrapped transport, for client-go.
func (t *renewing) WrappedRoundTripper() http.RoundTripper { return t.next }

func withToken(r *http.Request, token string, body io.ReadCloser) *http.Request {
	r = r.Clone(r.Context())
	r.Body = body
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// bodyAgain returns the body of a request that was already sent. It returns false if the body cannot be sent again.
func bodyAgain(r *http.Request) (io.ReadCloser, bool) {
	if r.Body == nil || r.Body == http.NoBody {
		return r.Body, true
	}
	if r.GetBody == nil {
		return nil, false
	}
	body, err := r.GetBody()
	return body, err == nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}
