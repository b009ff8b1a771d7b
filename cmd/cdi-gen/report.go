package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/archive"
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
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

const defaultReport = "cdi-gen-report.tar.gz"

func newReport() *cobra.Command {
	var root, output string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Collect one file for a bug report: HCAs, versions, specs, findings",
		Long: `Collect what a bug report needs in one archive: the RDMA part of sysfs, versions, CDI
specs and the findings of cdi-gen doctor. report replaces addresses, GUIDs, names of the
host and its users, and what others wrote into specs. If a search finds any of these, it
writes no archive. It sends nothing. Read the archive before you share it.`,
		Example: `  sudo cdi-gen report
  tar -xzOf ` + defaultReport + ` | less`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := collect(cmd, root)
			if err != nil {
				return err
			}
			data, err := archive.TarGz("cdi-gen-report", files)
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
			cmd.PrintErrf("%s written; read it before you share it: tar -xzOf %s | less\n", output, text.Shell(output))
			return nil
		},
	}
	cmd.Flags().StringVar(&root, "host-root", "/", "`DIR` that holds the host's sys, dev, proc, etc, run and usr")
	cmd.Flags().StringVar(&output, "to", defaultReport, "`FILE` to write, - for standard output")
	cmd.Flags().StringVarP(&output, "output", "o", defaultReport, "the first name of --to")
	if err := cmd.Flags().MarkHidden("output"); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

// collect reads the host, and returns the scrubbed files.
func collect(cmd *cobra.Command, root string) ([]archive.File, error) {
	findings, err := doctor.Diagnose(cmd.Context(), doctor.Open(root))
	if err != nil {
		return nil, fmt.Errorf("%w; is the host's root directory at %q?", err, root)
	}
	whole, err := capture.Host(sysfs.DirFS(filepath.Join(root, "sys")))
	if err != nil {
		return nil, fmt.Errorf("collect the RDMA part of sysfs: %w", err)
	}
	host := hostfs.DirFS(root)
	list := reportSpecs(host)
	scrubber := capture.NewScrubber(whole, capture.NamesOf(host))
	for _, s := range list {
		scrubber.Hide(s.values...)
		scrubber.Hide(s.names...)
	}
	scrubbed, err := scrubber.Tree(whole)
	if err != nil {
		return nil, err
	}
	machine, err := tree.Format(scrubber.Text(machineDescription()), scrubbed)
	if err != nil {
		return nil, fmt.Errorf("collect the RDMA part of sysfs: %w", err)
	}
	hideQuotes(findings, list)
	eachText(reflect.ValueOf(findings), scrubber.Text)
	var out bytes.Buffer
	if err := text.JSON(&out, findings); err != nil {
		return nil, fmt.Errorf("write findings: %w", err)
	}
	files := []archive.File{
		{Name: "README", Data: []byte("A report of cdi-gen (https://github.com/rdma-dev/dra-driver-rdma). Developers " +
			"import it with\ngo run ./tools/machine import FILE --name NAME\n")},
		{Name: capture.MachineFile, Data: machine},
		{Name: "versions.txt", Data: []byte(scrubber.Text(versions(host, findings.Runtimes)))},
		{Name: "doctor.json", Data: out.Bytes()},
	}
	specFiles, err := specFilesOf(list, scrubber)
	if err != nil {
		return nil, err
	}
	files = append(files, specFiles...)
	return files, search(files, scrubber)
}

// search searches the files for what the report promises to hide. It names no value that it finds.
func search(files []archive.File, scrubber *capture.Scrubber) error {
	for _, f := range files {
		leak := scrubber.LeakOfText
		if f.Name == capture.MachineFile {
			leak = scrubber.Leak // what others wrote into specs is no part of it, but a spec may repeat sysfs
		}
		for _, part := range []string{f.Name, string(f.Data)} {
			if kind := leak(part); kind != "" {
				return fmt.Errorf("no report is written: %s is left in its file %s; "+
					"this is a fault of cdi-gen, please report it without the file", kind, reportName(f, leak))
			}
		}
	}
	return nil
}

// reportName returns the name of a file for an error: without the name of a spec, if that is what must not be seen.
func reportName(f archive.File, leak func(string) string) string {
	if leak(f.Name) != "" {
		return path.Dir(path.Dir(f.Name)) + "/" + hidden
	}
	return f.Name
}

func machineDescription() string {
	return "A machine from a report.\nSource: cdi-gen report, " + version.Get() + "\nPeculiar: not known yet.\n"
}

// versions returns the versions of what matters.
func versions(host fs.ReadLinkFS, runtimes []string) string {
	lines := []string{version.String("cdi-gen")}
	for _, file := range []string{"/proc/sys/kernel/osrelease", "/etc/os-release"} {
		data, err := hostfs.ReadFile(host, file, 16<<10)
		if err != nil {
			lines = append(lines, "unknown: "+err.Error())
			continue
		}
		lines = append(lines, "-- "+file, strings.TrimSpace(string(data)))
	}
	return strings.Join(append(lines, runtimes...), "\n") + "\n"
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
		invalid := func(s reportSpec) bool { return s.spec == nil && !s.ours && slices.Contains(f.Subjects, s.path) }
		if slices.ContainsFunc(list, invalid) {
			f.Message = otherQuoted.ReplaceAllString(goQuoted.ReplaceAllString(f.Message, hidden), hidden)
		}
		if f.ID == "container-unusable" || f.Severity == finding.NotSeen && strings.Contains(f.Message, "container ") {
			f.Message = goQuoted.ReplaceAllString(f.Message, hidden)
		}
	}
}

// specFilesOf returns the outlines of the specs with RDMA devices. An invalid spec is left out: doctor says why it is
// invalid.
func specFilesOf(list []reportSpec, scrubber *capture.Scrubber) ([]archive.File, error) {
	var files []archive.File
	taken := map[string]bool{}
	for _, s := range list {
		if s.spec == nil {
			continue
		}
		eachText(reflect.ValueOf(s.spec), scrubber.Text)
		text, err := cdi.Encode(s.spec, cdi.YAML)
		if err != nil {
			return nil, err
		}
		scrubbed := "specs" + scrubber.Text(s.path)
		name := scrubbed
		for i := 2; taken[name]; i++ {
			name = fmt.Sprintf("%s-%d", scrubbed, i)
		}
		taken[name] = true
		files = append(files, archive.File{Name: name, Data: text})
	}
	return files, nil
}

// eachText changes each text of a value that a pointer leads to.
func eachText(v reflect.Value, change func(string) string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(change(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			eachText(v.Elem(), change)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			eachText(v.Field(i), change)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(v.Index(i), change)
		}
	}
}
