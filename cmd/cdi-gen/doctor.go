package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/doctor"
)

func newDoctor() *cobra.Command {
	var root, output, config, container string
	var known []string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find problems with RDMA in containers on this host, and how to fix them",
		Long: `Check everything that RDMA in containers needs on this host: kernel modules, device
nodes, ports, locked memory, the hook, CDI specs and the runtimes that read them.
Each finding has a reason and a command that fixes it.

It writes nothing and needs no root. It lists what it could not check.`,
		Example: `  cdi-gen doctor
  cdi-gen doctor -o json | jq -r '.findings[] | select(.severity == "error") | .remedy'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := doctorWriters[output]
			if !ok {
				return cli.Usagef("--output %q: want table, json or yaml", output)
			}
			if err := acknowledged(cmd, config, &known); err != nil {
				return err
			}
			host := doctor.Open(root)
			if container != "" && !host.Local {
				return cli.Usagef("--container %q: --host-root must be /: the container runs on this host", container)
			}
			host.Container = container
			host.User = userOf(root)
			report, err := doctor.Diagnose(cmd.Context(), host)
			if err != nil {
				return fmt.Errorf("%w; is the host's root directory at %q?", err, root)
			}
			for _, entry := range report.WithoutEffect(known) {
				cmd.PrintErrf("note: %q is acknowledged without effect: no finding has this subject, and no HCA or "+
					"port of this name was found\n", entry)
			}
			report = report.Acknowledge(known)
			if err := write(cmd.OutOrStdout(), report); err != nil {
				return fmt.Errorf("write report: %w", err)
			}
			return worstFinding(report)
		},
	}
	cmd.Flags().StringVar(&root, "host-root", "/", "`DIR` that holds the host's sys, dev, proc, etc, run and usr")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "`FORMAT`: table, json or yaml")
	cmd.Flags().StringSliceVar(&known, "acknowledge", nil,
		"`ID` or ID=SUBJECT of findings that are no problem (repeatable)")
	cmd.Flags().StringVar(&container, "container", "",
		"of all running containers, check the HCAs of this one only, by its `ID` or PID")
	cmd.Flags().StringVar(&config, "config", "", "YAML `FILE` of kind HostConfig; flags win over it")
	return cmd
}

// newLooks is the child of doctor that looks into containers.
func newLooks() *cobra.Command {
	return &cobra.Command{
		Use: doctor.LookCommand, Short: "Look into containers for doctor", Hidden: true, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return doctor.AnswerLooks(cmd.InOrStdin(), text.Unwrap(cmd.OutOrStdout()))
		},
	}
}

// acknowledged takes the acknowledged findings from the config file if the flag is not set, and checks them.
func acknowledged(cmd *cobra.Command, config string, known *[]string) error {
	source := "--acknowledge"
	if config != "" {
		c, err := readConfig(cmd, config)
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("acknowledge") {
			*known, source = c.Acknowledge, fmt.Sprintf("read --config %q: acknowledge", config)
		}
	}
	if err := doctor.CheckAcknowledged(*known); err != nil {
		return cli.Usagef("%s: %w", source, err)
	}
	return nil
}

// worstFinding returns an error with the exit code of the worst finding, nil if there is no warning or error.
func worstFinding(r *doctor.Report) error {
	switch r.Summary.Worst() {
	case finding.Error:
		return coded(exitErrors, errSaid)
	case finding.Warning:
		return coded(exitWarnings, errSaid)
	}
	return nil
}

var doctorWriters = map[string]func(io.Writer, *doctor.Report) error{
	// The report escapes names itself, because the escaping writer would also escape its colours.
	"table": func(w io.Writer, r *doctor.Report) error {
		return text.WriteFindings(text.Unwrap(w), r.Findings, isTerminal(text.Unwrap(w)))
	},
	"json": func(w io.Writer, r *doctor.Report) error { return text.JSON(w, r) },
	"yaml": func(w io.Writer, r *doctor.Report) error { return text.YAML(w, r) },
}

// isTerminal reports whether to write colours: the writer must be a terminal, and NO_COLOR (https://no-color.org) must
// not be set.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
