package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/capture"
	"github.com/rdma-dev/dra-driver-rdma/internal/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/internal/doctor"
	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/quote"
	"github.com/rdma-dev/dra-driver-rdma/internal/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/version"
	"github.com/rdma-dev/dra-driver-rdma/internal/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

const defaultReport = "cdi-gen-report.tar.gz"

func newReport() *cobra.Command {
	var root, output string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Collect one file for a bug report: HCAs, versions, specs, findings",
		Long: `Collect what a bug report needs in one archive: the RDMA part of sysfs, versions, CDI
specs and the findings of cdi-gen doctor. report replaces addresses, GUIDs, host names and
values of variables. It sends nothing. Read the archive before you share it.`,
		Example: `  sudo cdi-gen report
  tar -xzOf ` + defaultReport + ` | less`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := collect(cmd, root)
			if err != nil {
				return err
			}
			data, err := archive(files)
			if err != nil {
				return err
			}
			if output == "-" {
				if _, err := quote.Unwrap(cmd.OutOrStdout()).Write(data); err != nil {
					return fmt.Errorf("write report to standard output: %w", err)
				}
				return nil
			}
			if _, err := atomicfile.Write(output, data, atomicfile.Options{Mode: 0o600}); err != nil {
				return err
			}
			cmd.PrintErrf("%s written; read it before you share it: tar -xzOf %s | less\n", output, quote.Shell(output))
			return nil
		},
	}
	cmd.Flags().StringVar(&root, "host-root", "/", "`DIR` that holds the host's sys, dev, proc, etc, run and usr")
	cmd.Flags().StringVarP(&output, "output", "o", defaultReport, "`FILE` to write, - for standard output")
	return cmd
}

// reportFile is a file of the archive.
type reportFile struct {
	name string
	data []byte
}

// collect reads the host, and returns the scrubbed files.
func collect(cmd *cobra.Command, root string) ([]reportFile, error) {
	findings, err := doctor.Diagnose(cmd.Context(), doctor.Open(root))
	if err != nil {
		return nil, fmt.Errorf("%w; is the host's root directory at %q?", err, root)
	}
	whole, err := capture.Host(sysfs.DirFS(filepath.Join(root, "sys")))
	if err != nil {
		return nil, fmt.Errorf("collect the RDMA part of sysfs: %w", err)
	}
	host := hostfs.DirFS(root)
	scrubber := capture.NewScrubber(whole, hostNames(host)...)
	scrubbed, err := scrubber.Tree(whole)
	if err != nil {
		return nil, err
	}
	machine, err := tree.Format(machineDescription(), scrubbed)
	if err != nil {
		return nil, fmt.Errorf("collect the RDMA part of sysfs: %w", err)
	}
	var text bytes.Buffer
	if err := quote.JSON(&text, findings); err != nil {
		return nil, fmt.Errorf("write findings: %w", err)
	}
	files := []reportFile{
		{"README", []byte("A report of cdi-gen (https://github.com/rdma-dev/dra-driver-rdma). Developers import it with\n" +
			"go run ./tools/machine import FILE --name NAME\n")},
		{capture.MachineFile, machine},
		{"versions.txt", []byte(scrubber.Text(versions(host, findings.Runtimes)))},
		{"doctor.json", []byte(scrubber.Text(text.String()))},
	}
	return append(files, specFilesOf(host, scrubber)...), nil
}

func machineDescription() string {
	return "A machine from a report.\nSource: cdi-gen report, " + version.Get() + "\nPeculiar: not known yet.\n"
}

// hostNames returns the names of a host.
func hostNames(host fs.ReadLinkFS) []string {
	var names []string
	for _, file := range []string{"/etc/hostname", "/proc/sys/kernel/hostname"} {
		data, err := hostfs.ReadFile(host, file, 4<<10)
		if name := strings.TrimSpace(string(data)); err == nil && name != "" {
			short, _, _ := strings.Cut(name, ".")
			names = append(names, name, short)
		}
	}
	return names
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

// specFilesOf returns the specs of RDMA devices, without the values of variables. An invalid spec is left out: doctor
// says why it is invalid.
func specFilesOf(host fs.ReadLinkFS, scrubber *capture.Scrubber) []reportFile {
	var files []reportFile
	for _, dir := range []string{cdi.StaticDir, cdi.DynamicDir} {
		entries, _ := hostfs.ReadDir(host, dir) // doctor reports an error
		for _, e := range entries {
			data, err := hostfs.ReadFile(host, path.Join(dir, e.Name()), int64(yamlread.Spec.Size))
			if err != nil || !bytes.Contains(data, []byte("/dev/infiniband")) {
				continue
			}
			spec, err := cdi.ParseSpec(data)
			if err != nil {
				continue
			}
			for _, e := range cdi.Edits(spec) {
				hideValues(e)
			}
			text, err := cdi.Encode(spec, cdi.YAML)
			if err != nil {
				continue
			}
			files = append(files, reportFile{"specs" + path.Join(dir, e.Name()), []byte(scrubber.Text(string(text)))})
		}
	}
	return files
}

// hideValues takes the values of variables out of edits. They may be secrets of the site.
func hideValues(e *specs.ContainerEdits) {
	hide := func(env []string) {
		for i, variable := range env {
			name, _, _ := strings.Cut(variable, "=")
			env[i] = name + "=(hidden)"
		}
	}
	hide(e.Env)
	for _, h := range e.Hooks {
		hide(h.Env)
	}
}

// archive makes the archive. Equal files make equal archives.
func archive(files []reportFile) ([]byte, error) {
	var buf bytes.Buffer
	zipped := gzip.NewWriter(&buf)
	w := tar.NewWriter(zipped)
	var errs []error
	for _, f := range files {
		header := &tar.Header{Name: "cdi-gen-report/" + f.name, Mode: 0o644, Size: int64(len(f.data))}
		errs = append(errs, w.WriteHeader(header))
		_, err := w.Write(f.data)
		errs = append(errs, err)
	}
	if err := errors.Join(append(errs, w.Close(), zipped.Close())...); err != nil {
		return nil, fmt.Errorf("make the archive: %w", err)
	}
	return buf.Bytes(), nil
}
