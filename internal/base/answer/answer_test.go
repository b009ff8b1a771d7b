package answer_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/apifault"
)

// answered returns what client-go makes of an answer to the request for a claim.
func answered(t *testing.T, do func(http.ResponseWriter, *http.Request, http.Handler)) (*resourceapi.ResourceClaim, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { do(w, r, nil) }))
	defer server.Close()
	client, _, err := apiclient.New(&rest.Config{Host: server.URL})
	must.NoError(t, err)
	return client.ResourceV1().ResourceClaims("team-a").Get(t.Context(), "nic", metav1.GetOptions{})
}

func status(err *apierrors.StatusError) func(http.ResponseWriter, *http.Request, http.Handler) {
	s := err.Status()
	text := fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d,
		"details": {"name": %q, "group": %q, "kind": %q}}`, s.Reason, s.Code, s.Details.Name, s.Details.Group, s.Details.Kind)
	return apifault.Says(int(s.Code), "application/json", text)
}

// TestGone: only the API server's own Status about the very object says that it is gone. After every other answer the
// request is tried again, and no answer is taken for the object.
func TestGone(t *testing.T) {
	claims := resourceapi.Resource("resourceclaims")
	_, err := answered(t, status(apierrors.NewNotFound(claims, "nic")))
	if err = fmt.Errorf("get claim: %w", err); !answer.Gone(err, claims, "nic") || answer.Temporary(err, claims, "nic") || !answer.Answered(err) {
		t.Errorf("the API server's own answer %v does not count", err)
	}
	for _, tc := range apifault.Answers {
		claim, err := answered(t, tc.Do)
		test.False(t, answer.Gone(err, claims, "nic"), test.Sprintf("%s: the claim is gone: %v", tc.Name, err))
		if err == nil {
			err = answer.About(claim, "team-a", "nic")
		}
		if err == nil || !answer.Temporary(err, claims, "nic") {
			t.Errorf("%s: not tried again: %v", tc.Name, err)
		}
	}
	test.False(t, answer.Gone(nil, claims, "nic"), test.Sprint("gone without"))
}

// TestSaid: the other reasons count in the same way, and a bare HTTP status never does.
func TestSaid(t *testing.T) {
	claims := resourceapi.Resource("resourceclaims")
	for reason, of := range map[metav1.StatusReason]*apierrors.StatusError{
		metav1.StatusReasonAlreadyExists: apierrors.NewAlreadyExists(claims, "nic"),
		metav1.StatusReasonConflict:      apierrors.NewConflict(claims, "nic", nil),
		metav1.StatusReasonForbidden:     apierrors.NewForbidden(claims, "nic", nil),
	} {
		_, err := answered(t, status(of))
		if !answer.Said(err, reason, claims, "nic") || answer.Said(err, reason, claims, "other") ||
			answer.Said(err, metav1.StatusReasonNotFound, claims, "nic") || answer.Temporary(err, claims, "nic") {
			t.Errorf("%s: %v", reason, err)
		}
		_, err = answered(t, apifault.Says(int(of.Status().Code), "text/html", "<html>"))
		if answer.Said(err, reason, claims, "nic") || answer.Answered(err) || !answer.Temporary(err, claims, "nic") {
			t.Errorf("a page with the status of %s counts: %v", reason, err)
		}
	}
	busy := apierrors.NewTooManyRequests("later", 1)
	if answer.Said(busy, metav1.StatusReasonTooManyRequests, claims, "") || !answer.Temporary(busy, claims, "nic") {
		t.Errorf("%v", busy)
	}
}

// TestListed: an answer without a version is no list of the API server.
func TestListed(t *testing.T) {
	_, err := answer.Listed(&resourceapi.ResourceClaimList{}, nil)
	test.Error(t, err, test.Sprint("{} is a list"))
	_, err = answer.Listed(&resourceapi.ResourceClaimList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, nil)
	test.NoError(t, err)
}
