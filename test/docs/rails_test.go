package docs

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"sigs.k8s.io/yaml"
)

// railsPage reads docs/nccl.md and a file of examples/rails-gpu.
func railsPage(t *testing.T) (page *Page, file func(name string) string) {
	t.Helper()
	page, err := Read(filepath.Join(checkout, "docs", "nccl.md"))
	must.NoError(t, err)
	return page, func(name string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(checkout, "examples", "rails-gpu", name))
		must.NoError(t, err)
		return string(data)
	}
}

// TestRailsGPU: docs/nccl.md links to each file of examples/rails-gpu and applies each manifest but the one for an
// operator. TestRailsGPU of test/cluster/e2e runs these commands.
func TestRailsGPU(t *testing.T) {
	page, _ := railsPage(t)
	commands := ""
	for _, block := range page.Blocks {
		commands += block.Text
	}
	linked := strings.Join(page.Links, "\n") + "\n"
	files, err := filepath.Glob(filepath.Join(checkout, "examples", "rails-gpu", "*"))
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		test.StrContains(t, linked, "/rails-gpu/"+name+"\n", test.Sprintf("docs/nccl.md does not link to %s", file))
		applied := strings.Contains(commands, " -f "+name) ||
			strings.Contains(commands, "--values examples/rails-gpu/"+name)
		test.Eq(t, name != "Dockerfile" && name != "mpijob.yaml", applied,
			test.Sprintf("docs/nccl.md applies %s", file))
	}
}

// TestRailsPolicy: the rules that docs/nccl.md shows are those of the file, and NCCL looks for addresses of all rails and
// no others.
func TestRailsPolicy(t *testing.T) {
	page, file := railsPage(t)
	values := file("values.yaml")
	shown := false
	for _, block := range page.Blocks {
		shown = shown || block.Language == "yaml" && strings.HasSuffix(values, block.Text)
	}
	test.True(t, shown, test.Sprint("docs/nccl.md does not show the end of examples/rails-gpu/values.yaml"))
	var parsed struct {
		Config struct {
			IPAM map[string]struct{ Subnet netip.Prefix }
		}
	}
	must.NoError(t, yaml.Unmarshal([]byte(values), &parsed))
	addressRange := regexp.MustCompile(`NCCL_IB_ADDR_RANGE, value: (\S+)}`)
	for _, name := range []string{"job.yaml", "mpijob.yaml"} {
		match := addressRange.FindStringSubmatch(file(name))
		must.NotNil(t, match, must.Sprintf("%s sets no NCCL_IB_ADDR_RANGE", name))
		all, err := netip.ParsePrefix(match[1])
		must.NoError(t, err)
		if size := all.Bits() + 3; len(parsed.Config.IPAM) != 8 || size != 16 { // eight subnets
			t.Errorf("%s: %s is not eight subnets", name, all)
		}
		for rail, entry := range parsed.Config.IPAM {
			test.True(t, all.Contains(entry.Subnet.Addr()),
				test.Sprintf("%s: %s does not contain %s %s", name, all, rail, entry.Subnet))
		}
	}
}

// TestRailsVariables: the Job and the MPI operator's job set the same variables of NCCL.
func TestRailsVariables(t *testing.T) {
	_, file := railsPage(t)
	variable := regexp.MustCompile(`\{name: NCCL_\w+, value: \S+\}`)
	job, mpi := variable.FindAllString(file("job.yaml"), -1), variable.FindAllString(file("mpijob.yaml"), -1)
	if len(job) < 4 || strings.Join(job, " ") != strings.Join(mpi, " ") {
		t.Errorf("job.yaml sets %q, and mpijob.yaml %q", job, mpi)
	}
}
