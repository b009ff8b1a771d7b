package policies

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

// reach is an API server with the plain manifests of the driver, and who writes to it, by name:
//   - driver, by the token of the driver's pod on node-a, which was taken over
//   - loose, by a token of the driver's account that no pod has
//   - kubelet, by the kubelet's own credentials on node-a: they lie on the same disk as the driver's token
//   - moved, as the driver in another namespace, where kustomize put it: its policies name no other
//   - admin
type reach struct {
	server  *server
	configs map[string]*rest.Config
	clients map[string]dynamic.Interface
}

// attempt is what somebody tries.
type attempt struct {
	Try       string
	As        string // driver, if it is empty
	Verb      string // create, if it is empty
	Resource  string // as resource.version.group
	Namespace string
	// Of is the name of a stored object. Without, the attempt is about the object of its file.
	Of       string
	Object   json.RawMessage
	Set      map[string]json.RawMessage // changes of the object, by JSON pointer; null removes
	Body     json.RawMessage            // of a patch
	Selector string                     // of fields, for a list
	Status   bool                       // it is about the subresource
	// Refused are words of the refusal, empty if it may be done.
	Refused string
	// Policy is the name of a policy that refuses it.
	Policy string
	// Unchanged means that it is accepted and has no effect.
	Unchanged bool
}

// attempts reads a file of testdata/reach. What it says of all attempts holds where an attempt says nothing else.
func attempts(t *testing.T, name string) (all []attempt) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/reach", name))
	must.NoError(t, err)
	file := struct {
		attempt
		Attempts []json.RawMessage
	}{}
	must.NoError(t, yaml.Unmarshal(data, &file))
	for _, text := range file.Attempts {
		a := file.attempt
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		must.NoError(t, decoder.Decode(&a))
		all = append(all, a)
	}
	return all
}

// do makes an attempt. Nothing is stored.
func (r *reach) do(ctx context.Context, a attempt) error {
	as := a.As
	if as == "" {
		as = "driver"
	}
	client := r.client(as, a)
	dry, force := []string{metav1.DryRunAll}, true
	patch := metav1.PatchOptions{DryRun: dry}
	var err error
	switch a.Verb {
	case "":
		var object *unstructured.Unstructured
		if object, err = changed(a.Object, a.Set); err == nil {
			_, err = client.Create(ctx, object, metav1.CreateOptions{DryRun: dry})
		}
	case "update":
		err = r.update(ctx, a, client)
	case "patch":
		_, err = client.Patch(ctx, a.Of, types.StrategicMergePatchType, a.Body, patch, a.subresources()...)
	case "apply":
		patch.FieldManager, patch.Force = "rdma.dev", &force
		_, err = client.Patch(ctx, a.Of, types.ApplyPatchType, a.Body, patch, a.subresources()...)
	case "list":
		_, err = client.List(ctx, metav1.ListOptions{FieldSelector: a.Selector})
	case "delete":
		err = client.Delete(ctx, a.Of, metav1.DeleteOptions{DryRun: dry})
	case "delete all":
		err = client.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{})
	default:
		err = errors.New("unknown verb " + a.Verb)
	}
	return err
}

// client is somebody's, for the resource of an attempt.
func (r *reach) client(as string, a attempt) dynamic.ResourceInterface {
	resource, _ := schema.ParseResourceArg(a.Resource)
	return r.clients[as].Resource(*resource).Namespace(a.Namespace)
}

func (a attempt) subresources() []string {
	if a.Status {
		return []string{"status"}
	}
	return nil
}

// update updates a stored object.
func (r *reach) update(ctx context.Context, a attempt, client dynamic.ResourceInterface) error {
	before, err := r.client("admin", a).Get(ctx, a.Of, metav1.GetOptions{})
	if err != nil {
		return err
	}
	text, err := before.MarshalJSON()
	if err != nil {
		return err
	}
	object, err := changed(text, a.Set)
	if err != nil {
		return err
	}
	after, err := client.Update(ctx, object, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}, a.subresources()...)
	if err != nil || !a.Unchanged {
		return err
	}
	for _, o := range []*unstructured.Unstructured{before, after} {
		o.SetManagedFields(nil)
		o.SetResourceVersion("")
	}
	if !equality.Semantic.DeepEqual(before, after) {
		return fmt.Errorf("the object is %v, was %v", after, before)
	}
	return nil
}

// changed is an object with changes by JSON pointer.
func changed(object []byte, changes map[string]json.RawMessage) (*unstructured.Unstructured, error) {
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		operation := "add"
		switch last := path[len(path)-1]; {
		case string(changes[path]) == "null":
			operation = "remove"
		case '0' <= last && last <= '9':
			operation = "replace"
		}
		text := fmt.Appendf(nil, `[{"op": %q, "path": %q, "value": %s}]`, operation, path, changes[path])
		patch, err := jsonpatch.DecodePatch(text)
		if err != nil {
			return nil, err
		}
		if object, err = patch.Apply(object); err != nil {
			return nil, fmt.Errorf("change %s: %w", path, err)
		}
	}
	out := &unstructured.Unstructured{}
	return out, out.UnmarshalJSON(object)
}

// try makes attempts.
func (r *reach) try(t *testing.T, attempts []attempt) {
	for _, a := range attempts {
		t.Run(a.Try, func(t *testing.T) {
			switch err := r.do(t.Context(), a); {
			case a.Refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case a.Refused != "" && err == nil:
				t.Errorf("accepted, want %q", a.Refused)
			case a.Refused != "" && !strings.Contains(err.Error(), a.Refused):
				t.Errorf("refused with %q, want %q", err, a.Refused)
			}
		})
	}
}

// startReach starts the server.
func startReach(t *testing.T) *reach {
	t.Helper()
	s := start(t, cluster.Options{})
	admin, err := drivertest.ConfigOf(s.Kubeconfig)
	must.NoError(t, err)
	for _, args := range []string{
		"create -f testdata/reach/before.yaml", "apply -f ../../../deployments/manifests/dra-driver-rdma.yaml",
		"create -f testdata/reach/after.yaml", "create -f testdata/reach/claims.yaml",
		"apply -f testdata/reach/claims.yaml --server-side --force-conflicts --subresource=status",
	} {
		s.must(t, strings.Fields(args)...)
	}
	r := &reach{server: s, configs: map[string]*rest.Config{"admin": admin}, clients: map[string]dynamic.Interface{}}
	for name, bound := range map[string][]string{
		"driver": {"--bound-object-kind=Pod", "--bound-object-name=driver"}, "loose": nil,
	} {
		args := append([]string{"--namespace", deploy.Namespace, "create", "token", deploy.Release}, bound...)
		token, err := s.run(t, "", args...)
		must.NoError(t, err)
		r.configs[name] = rest.AnonymousClientConfig(admin)
		r.configs[name].BearerToken = strings.TrimSpace(token)
	}
	for name, who := range map[string]rest.ImpersonationConfig{
		"kubelet": {UserName: "system:node:node-a", Groups: []string{"system:nodes", "system:authenticated"}},
		"moved": {
			UserName: "system:serviceaccount:elsewhere:" + deploy.Release, Groups: []string{"system:masters"},
			Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"node-a"}},
		},
	} {
		r.configs[name] = rest.CopyConfig(admin)
		r.configs[name].Impersonate = who
	}
	for name, config := range r.configs {
		r.clients[name], err = dynamic.NewForConfig(config)
		must.NoError(t, err)
	}
	return r
}

// await waits until roles and policies are in force, which takes the API server a moment: something of the driver's own
// is accepted, and something of nobody's is refused by each policy that an attempt names.
func (r *reach) await(t *testing.T, all []attempt) {
	t.Helper()
	drivertest.Eventually(t, func() error {
		for _, a := range all {
			if a.Policy == "" {
				continue
			}
			if err := r.do(t.Context(), a); err == nil || !strings.Contains(err.Error(), a.Policy) {
				return fmt.Errorf("policy %s is not in force: %w", a.Policy, err)
			}
		}
		return r.do(t.Context(), all[0])
	})
}

// TestReach: whoever has the token of a node's driver, or the credentials of its kubelet, writes nothing that names
// something of another node. Each attempt in testdata/reach that is accepted touches the own node alone.
func TestReach(t *testing.T) {
	r := startReach(t)
	var all []attempt
	parts := []string{"slices", "claims", "events", "rights"}
	for _, name := range parts {
		all = append(all, attempts(t, "try-"+name+".yaml")...)
	}
	r.await(t, all)
	for _, name := range parts {
		t.Run(name, func(t *testing.T) { r.try(t, attempts(t, "try-"+name+".yaml")) })
	}
	t.Run("generation", r.absurdGeneration)
	t.Run("manifests", r.server.manifests)
}
