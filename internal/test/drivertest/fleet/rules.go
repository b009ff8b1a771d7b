package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// Rules returns the stored DeviceTaintRules.
func (s *Server) Rules() []resourceapi.DeviceTaintRule { return s.lists.Rules }

// storeRules lists the DeviceTaintRules, and stores what clients write. Kubernetes itself is in test/cluster.
func (s *Server) storeRules(mux *http.ServeMux, base string) {
	serveNewest(s, mux, "devicetaintrules", base, s.Rules)
	path := base + "/devicetaintrules"
	for _, route := range []string{"POST " + path, "PUT " + path + "/{name}", "DELETE " + path + "/{name}"} {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			var rule resourceapi.DeviceTaintRule
			if r.Method != http.MethodDelete {
				if err := json.NewDecoder(r.Body).Decode(&rule); err != nil {
					refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "", "devicetaintrules", "", err.Error())
					return
				}
			}
			name := r.PathValue("name") + rule.Name
			if r.Method == http.MethodPut {
				name = rule.Name
			}
			dry := r.URL.Query().Get("dryRun") != ""
			verb := map[string]string{"POST": "create", "PUT": "update", "DELETE": "delete"}[r.Method]
			if slices.Contains(s.Forbidden, verb+" devicetaintrules") {
				says := fmt.Sprintf("devicetaintrules.resource.k8s.io is forbidden: User \"jane\" cannot %s it", verb)
				refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "resource.k8s.io", "devicetaintrules", name, says)
				return
			}
			if !dry {
				s.Asked = append(s.Asked, verb+" "+name)
			}
			s.store(w, r.Method, name, rule, dry)
		})
	}
}

func (s *Server) store(w http.ResponseWriter, method, name string, rule resourceapi.DeviceTaintRule, dry bool) {
	at := slices.IndexFunc(s.lists.Rules, func(r resourceapi.DeviceTaintRule) bool { return r.Name == name })
	if exists := at >= 0; exists == (method == http.MethodPost) {
		code, reason := http.StatusNotFound, metav1.StatusReasonNotFound
		if exists {
			code, reason = http.StatusConflict, metav1.StatusReasonAlreadyExists
		}
		refuse(w, code, reason, "resource.k8s.io", "devicetaintrules", name, name+": "+string(reason))
		return
	}
	rules := slices.Clone(s.lists.Rules)
	switch method {
	case http.MethodPost:
		rule.UID, rule.CreationTimestamp = types.UID("uid of "+name), s.created
		rules = append(rules, rule)
	case http.MethodPut:
		rules[at] = rule
	default:
		rules = slices.Delete(rules, at, at+1)
	}
	if !dry {
		s.lists.Rules = rules
	}
	if method == http.MethodDelete {
		answer(w, http.StatusOK, metav1.Status{Status: metav1.StatusSuccess})
		return
	}
	rule.TypeMeta.Kind = "DeviceTaintRule"
	answer(w, http.StatusOK, rule)
}

// serveReviews answers who the user is, and what it may do: all that is not in Forbidden.
func (s *Server) serveReviews(mux *http.ServeMux) {
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SelfSubjectAccessReview
		body, err := io.ReadAll(r.Body)
		if err == nil { // typed clients send protocol buffers
			err = runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), body, &review)
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "", "", "", err.Error())
			return
		}
		a := review.Spec.ResourceAttributes
		forbidden := slices.Contains(s.Forbidden, a.Verb+" "+a.Resource) || slices.Contains(s.Forbidden, a.Resource)
		review.Status.Allowed = !forbidden
		review.TypeMeta = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
		answer(w, http.StatusCreated, review)
	})
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusCreated, authenticationv1.SelfSubjectReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
			Status:   authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: "jane"}},
		})
	})
}
