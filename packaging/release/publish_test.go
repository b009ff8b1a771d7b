package release

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"go.yaml.in/yaml/v3"
)

// TestWorkflows: each command of the forge's workflows is a target of the Makefile, and each action is pinned by its
// commit. lint checks the rest with actionlint.
func TestWorkflows(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(checkout, "Makefile"))
	must.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(checkout, ".github/workflows/*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("workflows %q, %v", files, err)
	}
	ran := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		must.NoError(t, err)
		steps := regexp.MustCompile(`(?m)^\s*(?:- )?(run|uses): (.*)$`)
		for _, m := range steps.FindAllStringSubmatch(string(text), -1) {
			if m[1] == "uses" {
				test.True(t, regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`).MatchString(m[2]),
					test.Sprintf("%s: the action %s is not pinned by its commit", file, m[2]))
				continue
			}
			target, isMake := strings.CutPrefix(m[2], "make ")
			if !isMake || !strings.Contains(string(makefile), "\n"+target+": ") {
				t.Errorf("%s: %q is no target of the Makefile", file, m[2])
			}
			ran += target + " "
		}
	}
	for _, want := range []string{"test", "dist", "publish-tools", "publish"} {
		test.StrContains(t, " "+ran, " "+want+" ", test.Sprintf("no workflow runs make %s; they run %s", want, ran))
	}
}

// TestWorkflowRights: a job that may write or sign runs nothing but the two targets that publish, so that what a build
// runs has no right. No name of the forge, such as that of a branch, is part of a command.
func TestWorkflowRights(t *testing.T) {
	type job struct {
		Permissions map[string]string
		Needs       string
		Steps       []struct{ Run, Uses string }
	}
	files, err := filepath.Glob(filepath.Join(checkout, ".github/workflows/*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("workflows %q, %v", files, err)
	}
	builds, publishes := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		must.NoError(t, err)
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]job
		}
		must.NoError(t, yaml.Unmarshal(text, &workflow), must.Sprint(file))
		for name, job := range workflow.Jobs {
			rights := job.Permissions
			if rights == nil {
				rights = workflow.Permissions
			}
			test.NotNil(t, rights,
				test.Sprintf("%s: job %s has the rights that the forge gives by default", file, name))
			writes := slices.Contains(slices.Collect(maps.Values(rights)), "write")
			for _, step := range job.Steps {
				isPublish := step.Run == "make publish" || step.Run == "make publish-tools"
				switch {
				case strings.Contains(step.Run, "${{"):
					t.Errorf("%s: job %s: a shell reads the expression in %q: pass it by env", file, name, step.Run)
				case step.Run != "" && isPublish != writes:
					t.Errorf("%s: job %s with the rights %v runs %q", file, name, rights, step.Run)
				case step.Run == "make dist":
					builds++
				case step.Run == "make publish":
					publishes++
					test.NotEq(t, "", job.Needs,
						test.Sprintf("%s: job %s publishes what no other job built", file, name))
				}
			}
		}
	}
	if builds != 1 || publishes != 1 {
		t.Errorf("the workflows build %d times and publish %d times, want once", builds, publishes)
	}
}

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// newDist is a directory such as make dist fills, and tools that record how they are called.
func newDist(t *testing.T) (dist, tools string) {
	t.Helper()
	dist, tools = t.TempDir(), t.TempDir()
	for _, name := range []string{
		"dra-driver-rdma_1.2.3.oci.tar", "rdma-perftest_1.2.3.oci.tar", "dra-driver-rdma-1.2.3.tgz", "rdma.yaml",
	} {
		write(t, filepath.Join(dist, name), name, 0o644)
	}
	sums := tool(t, "sh", "-c", "cd "+dist+" && sha256sum *")
	write(t, filepath.Join(dist, "SHA256SUMS"), sums, 0o644)
	recorder(t, tools, "oras", `case $1 in login) cat >>"$CALLS"; echo >>"$CALLS" ;; resolve) echo `+digest+" ;; esac")
	recorder(t, tools, "cosign", `[ "$1" != sign-blob ] || touch SHA256SUMS.sigstore.json`)
	recorder(t, tools, "helm", "")
	recorder(t, tools, "gh", noRelease)
	return dist, tools
}

// noRelease is the answer of a gh without a release, unless a test says EXISTS.
const noRelease = `[ "$2" != view ] || [ "$EXISTS" ]`

// recorder makes a program that writes its calls to the file $CALLS, and then does what a shell command says.
func recorder(t *testing.T, dir, name, answer string) {
	t.Helper()
	write(t, filepath.Join(dir, name), "#!/bin/sh\necho "+name+` "$@" >>"$CALLS"`+"\n"+answer+"\n", 0o755)
}

// publish runs the target of the Makefile, and returns the calls and the messages.
func publish(t *testing.T, dist, tools, version string, env ...string) (calls, says string, err error) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command("make", "-s", "-C", checkout, "publish", "VERSION="+version,
		"DIST="+dist, "PUBLISH_TOOLS="+tools)
	cmd.Env = append(os.Environ(), append(env, "CALLS="+log)...)
	out, err := cmd.CombinedOutput()
	data, _ := os.ReadFile(log)
	return string(data), string(out), err
}

// TestPublish: the target pushes and signs the image by its digest, the chart and the checksums, and makes the page
// last, with every file. A token reaches only the standard input of the login.
func TestPublish(t *testing.T) {
	dist, tools := newDist(t)
	output := filepath.Join(t.TempDir(), "output")
	env := []string{"GITHUB_OUTPUT=" + output, "REGISTRY_USER=me", "REGISTRY_TOKEN=secret"}
	calls, says, err := publish(t, dist, tools, "v1.2.3", env...)
	must.NoError(t, err, must.Sprintf("%v: %s", err, says))
	const perftest = "ghcr.io/rdma-dev/rdma-perftest"
	const image, chart = "ghcr.io/rdma-dev/dra-driver-rdma", "ghcr.io/rdma-dev/charts/dra-driver-rdma"
	want := strings.Join([]string{
		"gh release view v1.2.3",
		"oras login --username me --password-stdin ghcr.io", "secret",
		"oras cp --recursive --from-oci-layout rdma-perftest_1.2.3.oci.tar:v1.2.3 " + perftest + ":v1.2.3",
		"oras resolve " + perftest + ":v1.2.3",
		"cosign sign --yes --recursive " + perftest + "@" + digest,
		"oras cp --recursive --from-oci-layout dra-driver-rdma_1.2.3.oci.tar:v1.2.3 " + image + ":v1.2.3",
		"oras resolve " + image + ":v1.2.3",
		"cosign sign --yes --recursive " + image + "@" + digest,
		"helm push dra-driver-rdma-1.2.3.tgz oci://ghcr.io/rdma-dev/charts",
		"oras resolve " + chart + ":1.2.3",
		"cosign sign --yes " + chart + "@" + digest,
		"cosign sign-blob --yes --bundle SHA256SUMS.sigstore.json SHA256SUMS",
		"gh release create v1.2.3 --verify-tag --latest --title v1.2.3 --generate-notes --notes " +
			"Image: `" + image + ":v1.2.3@" + digest + "` ./SHA256SUMS ./SHA256SUMS.sigstore.json " +
			"./dra-driver-rdma-1.2.3.tgz ./dra-driver-rdma_1.2.3.oci.tar ./rdma-perftest_1.2.3.oci.tar ./rdma.yaml",
	}, "\n") + "\n"
	test.Eq(t, want, calls, test.Sprint("make publish calls"))
	if got, err := os.ReadFile(output); err != nil || string(got) !=
		"image-digest="+digest+"\nperftest-digest="+digest+"\n" {
		t.Errorf("the workflow gets %q, %v", got, err)
	}
	test.StrNotContains(t, says, "secret", test.Sprint("make publish prints the token"))
}

// TestPublishRefuses: what is no release, exists or was changed is not published, not in part.
func TestPublishRefuses(t *testing.T) {
	dist, tools := newDist(t)
	for _, test := range []struct{ version, env, want string }{
		{"v1.2.3-4-gabcdef0", "EXISTS=", "is not a tag"},
		{"v1.2.3-dirty", "EXISTS=", "is not a tag"},
		{"devel", "EXISTS=", "is not a version"},
		{"v1.2.3;touch x", "EXISTS=", `"v1.2.3?touch?x" is no version`},
		{"v1.2.3", "EXISTS=yes", "the release v1.2.3 exists"},
	} {
		calls, says, err := publish(t, dist, tools, test.version, test.env)
		if err == nil || !strings.Contains(says, test.want) || strings.Contains(calls, "oras") {
			t.Errorf("%v: %v: %s\ncalls %s", test, err, says, calls)
		}
	}
	more := filepath.Join(dist, "-rf more")
	write(t, more, "of nobody", 0o644)
	calls, says, err := publish(t, dist, tools, "v1.2.3")
	if err == nil || calls != "" || !strings.Contains(says, "./-rf more has no checksum") {
		t.Errorf("a file more: %v: %s\ncalls %s", err, says, calls)
	}
	must.NoError(t, os.Remove(more))
	write(t, filepath.Join(dist, "rdma.yaml"), "changed", 0o644)
	calls, says, err = publish(t, dist, tools, "v1.2.3")
	if err == nil || calls != "" || !strings.Contains(says, "rdma.yaml: FAILED") {
		t.Errorf("a changed file: %v: %s\ncalls %s", err, says, calls)
	}
}
