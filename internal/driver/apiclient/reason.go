package apiclient

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"
)

// Reason is a kind of trouble. It is also a metric label.
type Reason string

// The reasons.
const (
	Well          Reason = ""               // no trouble
	Unreachable   Reason = "unreachable"    // no connection, or the connection broke
	NoAnswer      Reason = "no-answer"      // no answer in time
	Slow          Reason = "slow"           // the answer was late
	Certificate   Reason = "certificate"    // the server's certificate is invalid; a clock may be wrong
	Unauthorized  Reason = "unauthorized"   // 401: the server refused the token
	Forbidden     Reason = "forbidden"      // 403: the service account lacks a right
	Conflict      Reason = "conflict"       // 409: another client wrote the object
	Invalid       Reason = "invalid"        // 400, 413, 422: what the driver sent
	Throttled     Reason = "throttled"      // 429
	ServerError   Reason = "server-error"   // 5xx, or 404 by something else than the API server
	DroppedFields Reason = "dropped-fields" // stored without some of its fields: a feature gate is off
	ChangedFields Reason = "changed-fields" // stored with other content: a mutating policy or webhook
)

// reasonOf returns the reason for an error of the transport.
func reasonOf(err error) Reason {
	var invalid x509.CertificateInvalidError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	switch {
	case errors.Is(err, errNoAnswer), errors.Is(err, context.DeadlineExceeded):
		return NoAnswer
	case errors.As(err, &invalid), errors.As(err, &authority), errors.As(err, &hostname):
		return Certificate
	}
	return Unreachable
}

// reasonOfStatus returns the reason and the message for an answer. It leaves the body for the caller to read.
func reasonOfStatus(resp *http.Response, took time.Duration) (Reason, string) {
	message := resp.Status
	if after := resp.Header.Get("Retry-After"); after != "" {
		message += ", retry after " + after + " s"
	}
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized:
		return Unauthorized, message
	case code == http.StatusForbidden:
		return Forbidden, message
	case code == http.StatusConflict && resp.Request.Method != http.MethodPost: // a POST's conflict: it exists already
		return Conflict, message
	case code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge, code == http.StatusUnprocessableEntity:
		return Invalid, message
	case code == http.StatusTooManyRequests:
		return Throttled, message
	case code >= http.StatusInternalServerError:
		return ServerError, message
	case code == http.StatusNotFound && !isStatus(resp):
		return ServerError, message +
			", not in the form of the API server: it does not serve the resource, or a proxy answered"
	case took >= slowTime:
		return Slow, fmt.Sprintf("answered after %v", took.Round(time.Millisecond))
	}
	return Well, ""
}

// isStatus reports whether an answer has the type of the API server's Status objects.
func isStatus(resp *http.Response) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && (kind == "application/json" || strings.HasPrefix(kind, "application/vnd.kubernetes."))
}

// requestOf names a request by verb and resource, as the API does: "get
// resourceclaims", "watch resourceslices", "patch resourceclaims/status".
func requestOf(r *http.Request) string {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch { // api/v1/..., apis/<group>/<version>/...
	case len(path) > 2 && path[0] == "api":
		path = path[2:]
	case len(path) > 3 && path[0] == "apis":
		path = path[3:]
	default:
		return strings.ToLower(r.Method) + " other"
	}
	if len(path) > 2 && path[0] == "namespaces" {
		path = path[2:]
	}
	resource := path[0]
	if len(path) > 2 {
		resource += "/" + path[2]
	}
	verb := strings.ToLower(r.Method)
	if verb == "get" && len(path) == 1 {
		verb = "list"
		if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
			verb = "watch"
		}
	}
	return verb + " " + resource
}
