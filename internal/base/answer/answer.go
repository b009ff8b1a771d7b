// Package answer says what an answer of the API server proves. "Not known" is not "no": client-go makes the same errors
// from the API server's words and from a bare HTTP status. A proxy's page "404 not found", or an API server that does
// not serve resource.k8s.io, reads as "the object is not found". So only a Status object of the API server about the
// very object decides that it is gone, or there already. An import rule keeps all other packages from
// apierrors.IsNotFound and its like.
package answer

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Said reports whether the API server itself gave a reason about one object. resource is in the plural, as in the path
// of the request. Callers must treat any other error as "not known", and try again.
func Said(err error, reason metav1.StatusReason, resource schema.GroupResource, name string) bool {
	status, ok := statusOf(err)
	d := status.Details
	return ok && status.Reason == reason && d != nil && name != "" && d.Name == name && d.Group == resource.Group &&
		d.Kind == resource.Resource
}

// Gone reports whether the API server itself said that it has no object of a name.
func Gone(err error, resource schema.GroupResource, name string) bool {
	return Said(err, metav1.StatusReasonNotFound, resource, name)
}

// Answered reports whether an error is the API server's own refusal: a Status object. It is false for what client-go
// makes of a bare HTTP status, and for requests without an answer.
func Answered(err error) bool {
	_, ok := statusOf(err)
	return ok
}

// Temporary reports whether a failed request for one object may succeed a moment later: the API server did not answer,
// answered with a temporary error, or did not find something else than the object.
func Temporary(err error, resource schema.GroupResource, name string) bool {
	status, ok := statusOf(err)
	return !ok || status.Code == http.StatusTooManyRequests || status.Code >= http.StatusInternalServerError ||
		status.Code == http.StatusNotFound && !Gone(err, resource, name)
}

// statusOf returns the Status object that the API server answered with.
func statusOf(err error) (metav1.Status, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsUnexpectedServerError(err) {
		return metav1.Status{}, false
	}
	return status.Status(), true
}

// About returns an error unless an answer is the object that was asked for. client-go reads an object without a name
// from {} and from a Status, and such an object has neither UID nor allocation, which would mean that the right one has
// ended. namespace is "" for an object of the cluster.
func About(answer metav1.Object, namespace, name string) error {
	if answer.GetNamespace() == namespace && answer.GetName() == name && answer.GetUID() != "" {
		return nil
	}
	return fmt.Errorf("the answer is not the object %q but %q with UID %q: it is not from the API server; look at what is "+
		"in front of it, such as a proxy", name, answer.GetName(), answer.GetUID())
}

// Listed takes the answer to a list call. It adds an error unless the answer is a list of the API server, which always
// has a version. client-go reads an empty list from {}.
func Listed[L metav1.ListInterface](list L, err error) (L, error) {
	if err == nil && list.GetResourceVersion() == "" {
		err = errors.New("the answer is a list without a version: it is not from the API server; look at what is in front " +
			"of it, such as a proxy")
	}
	return list, err
}
