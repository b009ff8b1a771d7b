package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

var modelledMachines = regexp.MustCompile("modelled\\s+machines? ((?:`[a-z0-9-]+`(?:,? and |,? )?)+)")

// TestMachinesAreCounted: docs/compatibility.md has the number of machines that are captures, and of those that are
// modelled, and machines that other pages name are there.
func TestMachinesAreCounted(t *testing.T) {
	names, captures := fixture.Names(), 0
	for _, name := range names {
		machine, err := fixture.Load(name)
		must.NoError(t, err)
		if title, _, _ := strings.Cut(machine.Description, "\n\n"); strings.Contains(title, "a real capture") {
			captures++
		}
	}
	text := strings.Join(strings.Fields(contents(t, "docs/compatibility.md")), " ")
	words := map[int]string{1: "one is a capture", 2: "two are captures", 3: "three are captures", 4: "four are captures"}
	for _, want := range []string{fmt.Sprintf("%d machines as directories of files", len(names)), words[captures],
		fmt.Sprintf("%d are modelled", len(names)-captures)} {
		if want == "" || !strings.Contains(text, want) {
			t.Errorf("docs/compatibility.md does not say %q; %d of %d machines are captures", want, captures, len(names))
		}
	}
	named := 0
	for _, page := range userPages(t) {
		for _, list := range modelledMachines.FindAllStringSubmatch(contents(t, strings.TrimPrefix(page.Path, checkout+"/")), -1) {
			for _, name := range regexp.MustCompile("[a-z0-9-]{3,}").FindAllString(strings.ReplaceAll(list[1], " and ", " "), -1) {
				named++
				test.True(t, slices.Contains(names, name),
					test.Sprintf("%s names the machine %s, which is not there", page.Path, name))
			}
		}
	}
	test.GreaterEq(t, 5, named, test.Sprintf("only %d machines are named", named))
}

// TestPlatformsAreListed: the front page and the page of compatibility lead to each platform.
func TestPlatformsAreListed(t *testing.T) {
	platforms, err := filepath.Glob(filepath.Join(checkout, "docs/platforms/*.md"))
	if err != nil || len(platforms) < 5 {
		t.Fatalf("platforms %v: %v", platforms, err)
	}
	for _, list := range []string{"docs/index.md", "docs/compatibility.md"} {
		for _, platform := range platforms {
			test.StrContains(t, contents(t, list), "(platforms/"+filepath.Base(platform)+")",
				test.Sprintf("%s does not lead to %s", list, platform))
		}
	}
}
