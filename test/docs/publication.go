package docs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Publication says where the image and the chart of the present version are, and whether anybody can pull them. The
// annotation rdma.dev/published of the chart decides, and its version and image are those of the documents.
type Publication struct {
	Published bool
	Version   string // such as 0.1.0
	Image     string // without a tag
}

const chartDir = "deployments/helm/dra-driver-rdma"

// ReadPublication reads it from the chart of a checkout.
func ReadPublication(checkout string) (Publication, error) {
	var chart struct {
		Version     string
		Annotations map[string]string
	}
	var values struct {
		Image struct{ Repository string }
	}
	for name, into := range map[string]any{"Chart.yaml": &chart, "values.yaml": &values} {
		data, err := os.ReadFile(filepath.Join(checkout, chartDir, name))
		if err != nil {
			return Publication{}, err
		}
		if err := yaml.Unmarshal(data, into); err != nil {
			return Publication{}, fmt.Errorf("read %s of the chart: %w", name, err)
		}
	}
	published := chart.Annotations["rdma.dev/published"]
	if published != "true" && published != "false" {
		return Publication{}, fmt.Errorf("the annotation rdma.dev/published of Chart.yaml is %q, want true or false", published)
	}
	return Publication{Published: published == "true", Version: chart.Version, Image: values.Image.Repository}, nil
}

// Charts is the repository of the chart: beside the image, below charts.
func (p Publication) Charts() string {
	return "oci://" + path.Dir(p.Image) + "/charts/" + path.Base(p.Image)
}

// Sentence tells whether there is something to pull.
func (p Publication) Sentence() string {
	if p.Published {
		return fmt.Sprintf("Version %s is published.", p.Version)
	}
	return fmt.Sprintf("Version %s is not published yet: nobody can pull its image, chart or packages.", p.Version)
}

// Notice is the sentence for a page, with a link to the way by one's own build.
func (p Publication) Notice(build string) string {
	if p.Published {
		return "> " + p.Sentence() + "\n"
	}
	return "> **" + p.Sentence() + "** [Build your own](" + build + ").\n"
}

// Install are the notice and the commands that lead to a running driver.
func (p Publication) Install(build string) string {
	var b strings.Builder
	b.WriteString(p.Notice(build) + "\n```sh\n")
	if !p.Published {
		own := "registry.example.com/dra-driver-rdma"
		fmt.Fprintf(&b, "make image IMAGE=%s:v%s      # writes bin/image.tar\n", own, p.Version)
		fmt.Fprintf(&b, "skopeo copy docker-archive:bin/image.tar docker://%s:v%s\n", own, p.Version)
	}
	b.WriteString("kubectl create namespace dra-driver-rdma\n")
	b.WriteString("kubectl label namespace dra-driver-rdma pod-security.kubernetes.io/enforce=privileged\n")
	if p.Published {
		fmt.Fprintf(&b, "helm install dra-driver-rdma %s --version %s \\\n    --namespace dra-driver-rdma --wait\n", p.Charts(), p.Version)
	} else {
		fmt.Fprintf(&b, "helm install dra-driver-rdma %s --namespace dra-driver-rdma --wait \\\n", chartDir)
		b.WriteString("    --set image.repository=registry.example.com/dra-driver-rdma\n")
	}
	b.WriteString("```\n")
	return b.String()
}
