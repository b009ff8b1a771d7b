package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// mpiJob has the fields of kubeflow.org/v2beta1 that a user writes, as of
// manifests/base/kubeflow.org_mpijobs.yaml of
// https://github.com/kubeflow/mpi-operator/tree/caa3c47fc42eb762635f78045ec0fcd1a89eb038
type mpiJob struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            struct {
		LauncherCreationPolicy string `json:"launcherCreationPolicy"`
		MPIImplementation      string `json:"mpiImplementation"`
		MPIReplicaSpecs        map[string]struct {
			Replicas      int32                  `json:"replicas"`
			RestartPolicy string                 `json:"restartPolicy"`
			Template      corev1.PodTemplateSpec `json:"template"`
		} `json:"mpiReplicaSpecs"`
		RunLauncherAsWorker bool `json:"runLauncherAsWorker"`
		RunPolicy           struct {
			ActiveDeadlineSeconds   int64  `json:"activeDeadlineSeconds"`
			BackoffLimit            int32  `json:"backoffLimit"`
			CleanPodPolicy          string `json:"cleanPodPolicy"`
			ManagedBy               string `json:"managedBy"`
			Suspend                 bool   `json:"suspend"`
			TTLSecondsAfterFinished int32  `json:"ttlSecondsAfterFinished"`
		} `json:"runPolicy"`
		SlotsPerWorker   int32  `json:"slotsPerWorker"`
		SSHAuthMountPath string `json:"sshAuthMountPath"`
	} `json:"spec"`
}

// jobSet has the fields of jobset.x-k8s.io/v1alpha2 that our manifest may use, as of
// config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml of
// https://github.com/kubernetes-sigs/jobset/tree/08dfbdfd682714a9ab929633eca8dc95315187e7
type jobSet struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            struct {
		FailurePolicy struct {
			MaxRestarts     int32  `json:"maxRestarts"`
			RestartStrategy string `json:"restartStrategy"`
		} `json:"failurePolicy"`
		Network struct {
			EnableDNSHostnames       bool   `json:"enableDNSHostnames"`
			PublishNotReadyAddresses bool   `json:"publishNotReadyAddresses"`
			Subdomain                string `json:"subdomain"`
		} `json:"network"`
		ReplicatedJobs []struct {
			GroupName string                  `json:"groupName"`
			Name      string                  `json:"name"`
			Replicas  int32                   `json:"replicas"`
			Template  batchv1.JobTemplateSpec `json:"template"`
		} `json:"replicatedJobs"`
		Suspend                 bool  `json:"suspend"`
		TTLSecondsAfterFinished int32 `json:"ttlSecondsAfterFinished"`
	} `json:"spec"`
}

// jobKinds are what the manifests of examples/jobs consist of, by API version and kind.
func jobKinds() map[string]any {
	return map[string]any{
		"apps/v1 Deployment":                       &appsv1.Deployment{},
		"batch/v1 Job":                             &batchv1.Job{},
		"jobset.x-k8s.io/v1alpha2 JobSet":          &jobSet{},
		"kubeflow.org/v2beta1 MPIJob":              &mpiJob{},
		"resource.k8s.io/v1 ResourceClaimTemplate": &resourceapi.ResourceClaimTemplate{},
		"v1 ConfigMap":                             &corev1.ConfigMap{},
		"v1 Service":                               &corev1.Service{},
	}
}

// checkManifest decodes each document; an unknown field or kind is an error.
func checkManifest(manifest string) error {
	for doc := range strings.SplitSeq(manifest, "\n---\n") {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &meta); err != nil {
			return err
		}
		kind := meta.APIVersion + " " + meta.Kind
		into, known := jobKinds()[kind]
		if !known {
			return fmt.Errorf("unknown kind %q", kind)
		}
		if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
			return err
		}
	}
	return nil
}

// TestJobs: the manifests that need hardware or operators have only fields of their APIs, and say that nobody ran them.
func TestJobs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(checkout, "examples", "jobs", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("find the manifests: %v", err)
	}
	files = append(files, filepath.Join(checkout, "examples", "rails-gpu", "mpijob.yaml"))
	var pages []byte
	for _, name := range []string{"mpi.md", "nccl.md", "gpus-by-plugin.md"} {
		page, err := os.ReadFile(filepath.Join(checkout, "docs", name))
		must.NoError(t, err)
		pages = append(pages, page...)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must.NoError(t, err)
		test.NoError(t, checkManifest(string(data)), test.Sprint(file))
		test.StrHasPrefix(t, "# NOT RUN BY US", string(data),
			test.Sprintf("%s does not say that nobody ran it", file))
		rel, err := filepath.Rel(checkout, file)
		must.NoError(t, err)
		test.StrContains(t, string(pages), "](../"+rel+")",
			test.Sprintf("none of docs/mpi.md, nccl.md and gpus-by-plugin.md names %s", file))
	}
	for _, planted := range []string{
		"apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nspec: {slots: 1}",
		"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nspec: {replicatedJobs: [{template: {spec: {indexes: 2}}}]}",
		"apiVersion: batch/v1beta1\nkind: Job",
	} {
		test.Error(t, checkManifest(planted), test.Sprintf("an unknown field or kind is taken: %s", planted))
	}
}
