package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/version"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/doctor"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/support"
)

const (
	reportDir     = "cdi-gen-report"
	defaultReport = reportDir + ".tar.gz"
)

func newReport() *cobra.Command {
	var root, output string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Collect one file for a bug report: HCAs, versions, specs, findings",
		Long: `Collect what a bug report needs in one archive: the RDMA part of sysfs, versions, CDI
specs and the findings of cdi-gen doctor. report replaces addresses, GUIDs, names of the
host and its users, and what others wrote into specs. If a search finds any of these, it
writes no archive. It sends nothing. Read the archive before you share it. Unpacked, it
is a directory for --host-root of other commands.`,
		Example: `  sudo cdi-gen report
  tar -xzf ` + defaultReport + ` && grep -r . ` + reportDir + ` | less
  cdi-gen list --host-root ` + reportDir,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := collect(cmd, root)
			if err != nil {
				return err
			}
			data, err := support.TarGz(reportDir, files)
			if err != nil {
				return err
			}
			if output == "-" {
				if _, err := text.Unwrap(cmd.OutOrStdout()).Write(data); err != nil {
					return fmt.Errorf("write report to standard output: %w", err)
				}
				return nil
			}
			if _, err := atomicfile.Write(output, data, atomicfile.Options{Mode: 0o600}); err != nil {
				return err
			}
			cmd.PrintErrf("%s written; read it before you share it: tar -xzf %s && grep -r . %s | less\n",
				output, text.Shell(output), reportDir)
			return nil
		},
	}
	cmd.Flags().StringVar(&root, "host-root", "/", "`DIR` that holds the host's sys, dev, proc, etc, run and usr")
	cmd.Flags().StringVar(&output, "to", defaultReport, "`FILE` to write, - for standard output")
	return cmd
}

// collect reads the host, and returns the scrubbed files.
func collect(cmd *cobra.Command, root string) ([]support.File, error) {
	findings, err := doctor.Diagnose(cmd.Context(), doctor.Open(root))
	if err != nil {
		return nil, fmt.Errorf("%w; is the host's root directory at %q?", err, root)
	}
	whole, err := capture.Host(sysfs.Below(root))
	if err != nil {
		return nil, fmt.Errorf("collect the RDMA part of sysfs: %w", err)
	}
	host := hostfs.DirFS(root)
	scrubber := capture.NewScrubber(whole, capture.NamesOf(host), nil)
	machine, err := capture.Scrub(whole, scrubber)
	if err != nil {
		return nil, err
	}
	specs, err := reportSpecs(host, findings.SpecDirs, scrubber)
	if err != nil {
		return nil, err
	}
	hideQuotes(findings, specs)
	doctored, err := scrubber.JSON(findings)
	if err != nil {
		return nil, fmt.Errorf("write findings: %w", err)
	}
	readme := "A machine from a report.\nSource: cdi-gen report, " + version.Get() + "\nPeculiar: not known yet.\n"
	files := []support.File{{Name: "README", Data: []byte(readme)}, {Name: "doctor.json", Data: doctored}}
	versions := findings.Runtimes
	for _, name := range []string{"proc/sys/kernel/osrelease", "etc/os-release"} {
		data, err := hostfs.ReadFile(host, name, 16<<10)
		if err != nil {
			versions = append(versions, "unknown: "+err.Error())
			continue
		}
		files = append(files, support.File{Name: name, Data: []byte(scrubber.Text(string(data)))})
	}
	files = append(files, support.File{Name: "versions.txt",
		Data: []byte(version.String("cdi-gen") + "\n" + scrubber.Text(strings.Join(versions, "\n")) + "\n")})
	files = append(files, outlineFiles(specs, scrubber)...)
	if err := search(files, scrubber); err != nil {
		return nil, err
	}
	return append(files, machineFiles(machine)...), nil
}

// machineFiles returns the files of a tree. An unreadable one becomes a link that nobody can follow, and
// unreadable.txt says why.
func machineFiles(machine *tree.Tree) []support.File {
	var files []support.File
	var unreadable strings.Builder
	for _, e := range machine.Entries() {
		f := support.File{Name: e.Path, Data: []byte(e.Data), Link: e.Target}
		switch e.Kind {
		case tree.Dir:
			f.Name += "/"
		case tree.Broken:
			f.Link = tree.BrokenTarget(e)
			fmt.Fprintf(&unreadable, "/%s: %v\n", e.Path, e.Errno)
		}
		files = append(files, f)
	}
	return append(files, support.File{Name: "unreadable.txt", Data: []byte(unreadable.String())})
}

// search searches the files for what the report promises to hide. It names no value that it finds.
func search(files []support.File, scrubber *support.Scrubber) error {
	for _, f := range files {
		name := f.Name
		if scrubber.Leak(name) != "" { // the name of a spec
			name = path.Dir(path.Dir(name)) + "/" + support.Hidden
		}
		for _, part := range []string{f.Name, string(f.Data)} {
			if kind := scrubber.Leak(part); kind != "" {
				return fmt.Errorf("no report is written: %s is left in its file %s; "+
					"this is a fault of cdi-gen, please report it without the file", kind, name)
			}
		}
	}
	return nil
}

// goQuoted is what a message of ours repeats, with escapes; otherQuoted what one of a library does.
var (
	goQuoted    = regexp.MustCompile(`"(\\.|[^"\\])*"`)
	otherQuoted = regexp.MustCompile("'[^']*'|`[^`]*`")
)

// hideQuotes hides what findings repeat of invalid specs, also a part of a value, and of containers.
func hideQuotes(report *doctor.Report, list []reportSpec) {
	for i := range report.Findings {
		f := &report.Findings[i]
		invalid := func(s reportSpec) bool { return s.outline == nil && slices.Contains(f.Subjects, s.path) }
		if slices.ContainsFunc(list, invalid) {
			f.Message = otherQuoted.ReplaceAllString(goQuoted.ReplaceAllString(f.Message, support.Hidden), support.Hidden)
		}
		if f.ID == "container-unusable" || f.Severity == finding.NotSeen && strings.Contains(f.Message, "container ") {
			f.Message = goQuoted.ReplaceAllString(f.Message, support.Hidden)
		}
	}
}

// outlineFiles returns the outlines of specs with RDMA devices, where the specs are. doctor says why one is invalid.
func outlineFiles(list []reportSpec, scrubber *support.Scrubber) []support.File {
	var files []support.File
	taken := map[string]bool{}
	for _, s := range list {
		if !strings.Contains(string(s.outline), "/dev/infiniband") {
			continue
		}
		scrubbed := strings.TrimPrefix(scrubber.Text(s.path), "/")
		name := scrubbed
		for i := 2; taken[name]; i++ {
			name = fmt.Sprintf("%s-%d", scrubbed, i)
		}
		taken[name] = true
		files = append(files, support.File{Name: name, Data: []byte(scrubber.Text(string(s.outline)))})
	}
	return files
}
