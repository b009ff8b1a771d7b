package drivertest

import (
	"net/http"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReviewToken and ReviewAccess are the requests that a driver makes to ask who may read from it.
const (
	ReviewToken  = "POST tokenreviews"
	ReviewAccess = "POST subjectaccessreviews"
)

// access is who has which token, and may get which paths.
type access struct {
	users map[string]string   // user by token
	paths map[string][]string // by user
}

// AddUser gives a user a token, and the right to get paths.
func (a *API) AddUser(name, token string, paths ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.access.users == nil {
		a.access = access{map[string]string{}, map[string][]string{}}
	}
	a.access.users[token] = name
	a.access.paths[name] = paths
}

func (a *API) reviewToken(w http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	if !decode(w, r, &review) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	user, known := a.access.users[review.Spec.Token]
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}
	review.Status = authenticationv1.TokenReviewStatus{Authenticated: known, User: authenticationv1.UserInfo{Username: user}}
	answer(w, http.StatusCreated, &review)
}

func (a *API) reviewAccess(w http.ResponseWriter, r *http.Request) {
	var review authorizationv1.SubjectAccessReview
	if !decode(w, r, &review) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := review.Spec.NonResourceAttributes
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}
	review.Status.Allowed = asked != nil && asked.Verb == "get" && slices.Contains(a.access.paths[review.Spec.User], asked.Path)
	answer(w, http.StatusCreated, &review)
}
