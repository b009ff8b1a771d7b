package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
)

func importCommand(dir *string) *cobra.Command {
	var name string
	var scrub bool
	cmd := &cobra.Command{
		Use:   "import REPORT|TAR --name NAME",
		Short: "Make a machine of a report of cdi-gen, or of a tar of a sysfs",
		Long: `Make a machine of a report of cdi-gen, or of a tar of a sysfs. A tar has sys/..., and may have
unreadable.txt, with a line "/sys/PATH: message" for each file whose read failed, and README, the description: what
it is, Source: ..., Peculiar: .... A machine that is replaced keeps its description. import adds directories and links
of /sys/bus that the tar lacks. It drops links that lead out of the tar.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return fmt.Errorf("import machine %q: %w", name, err)
			}
			defer f.Close()
			description, t, err := importTar(f)
			if err == nil && scrub {
				t, err = capture.Scrub(t, capture.NewScrubber(t, capture.Names{}, nil))
			}
			if err != nil {
				return fmt.Errorf("import machine %q from %q: %w", name, args[0], err)
			}
			return store(cmd, *dir, name, description, t)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the machine (required)")
	cmd.Flags().BoolVar(&scrub, "scrub", false, "replace MAC addresses, GUIDs and IP addresses, consistently")
	cobra.CheckErr(cmd.MarkFlagRequired("name"))
	return cmd
}

var nameFormat = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

func store(cmd *cobra.Command, dir, name, description string, t *tree.Tree) error {
	if !nameFormat.MatchString(name) {
		return fmt.Errorf("store machine %q: the name must be lower-case letters, digits and dashes", name)
	}
	old, err := os.ReadFile(filepath.Join(dir, name+".txtar"))
	if err == nil {
		description, _, err = tree.Parse(old)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("describe machine %q: %w", name, err)
	}
	description = cmp.Or(description, "A machine.\nSource: not known.\nPeculiar: not known.\n")
	archive, err := tree.Format(description, t)
	if err != nil {
		return fmt.Errorf("store machine %q: %w", name, err)
	}
	changed, err := writeArchive(dir, name, archive)
	if err != nil {
		return err
	}
	verb := "unchanged"
	if changed {
		verb = "wrote"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %d entries\n", verb, name, len(t.Entries()))
	return nil
}
