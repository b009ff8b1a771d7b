package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
)

// source is what capture and import have in common: whence a tree comes and where it goes.
type source struct {
	dir         *string // of the archives
	name        string
	description string
	scrub       bool
	text        string // the description, if the source has one
	names       capture.Names
}

func (s *source) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.name, "name", "", "name of the machine (required)")
	cmd.Flags().StringVar(&s.description, "description", "",
		"file with the description: what it is, Source: ..., Peculiar: ...; without it, that of the archive that is replaced")
	cmd.Flags().BoolVar(&s.scrub, "scrub", false, "replace MAC addresses, GUIDs, IP addresses and host names, consistently")
	cobra.CheckErr(cmd.MarkFlagRequired("name"))
}

func captureCommand(dir *string) *cobra.Command {
	s, root := &source{dir: dir}, ""
	cmd := &cobra.Command{
		Use:   "capture --name NAME [--scrub]",
		Short: "Capture the RDMA part of this host's sysfs as a machine",
		Long: `Capture the RDMA part of a running host's sysfs as a machine. Files that cannot be read are recorded with their error.
Run it as root, so that the error is the kernel's and not that of a permission; use --scrub for a host that is not yours
alone, and read the archive before you share it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sys, ok := os.DirFS(filepath.Join(root, "sys")).(capture.Sysfs)
			if !ok {
				return errors.New("capture host: os.DirFS cannot read links")
			}
			t, err := capture.Host(sys)
			if err != nil {
				return err
			}
			s.names = capture.NamesOf(hostfs.DirFS(root))
			return s.store(cmd, t)
		},
	}
	s.flags(cmd)
	cmd.Flags().StringVar(&root, "root", "/", "root of the host, below which sys is read")
	return cmd
}

func importCommand(dir *string) *cobra.Command {
	s := &source{dir: dir}
	cmd := &cobra.Command{
		Use:   "import REPORT|TAR --name NAME",
		Short: "Make a machine of a report of cdi-gen, or of a tar of a sysfs",
		Long: `Make a machine of a report of cdi-gen (a name that ends in .gz), or of a tar of a sysfs.
A tar has sys/..., and may have unreadable.txt, with a line "/sys/PATH: message" for each file
whose read failed, and dev-infiniband.txt, with the line "netns shared" or "netns exclusive" of
"rdma system". import adds directories and links of /sys/bus that the tar lacks. It drops links
that lead out of the tar.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return fmt.Errorf("import machine %q: %w", s.name, err)
			}
			defer f.Close()
			if strings.HasSuffix(args[0], ".gz") {
				description, t, err := importReport(f)
				if err != nil {
					return fmt.Errorf("import machine %q from %q: %w", s.name, args[0], err)
				}
				s.text = description
				return s.store(cmd, t)
			}
			t, err := importTar(f)
			if err != nil {
				return fmt.Errorf("import machine %q from %q: %w", s.name, args[0], err)
			}
			return s.store(cmd, t)
		},
	}
	s.flags(cmd)
	return cmd
}

var nameFormat = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

func (s *source) store(cmd *cobra.Command, t *tree.Tree) error {
	if !nameFormat.MatchString(s.name) {
		return fmt.Errorf("store machine %q: the name must be lower-case letters, digits and dashes", s.name)
	}
	description, err := s.describe()
	if err != nil {
		return err
	}
	if s.scrub {
		if t, err = capture.NewScrubber(t, s.names).Tree(t); err != nil {
			return err
		}
	}
	archive, err := tree.Format(description, t)
	if err != nil {
		return fmt.Errorf("store machine %q: %w", s.name, err)
	}
	changed, err := writeArchive(*s.dir, s.name, archive)
	if err != nil {
		return err
	}
	verb := "unchanged"
	if changed {
		verb = "wrote"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %d entries\n", verb, s.name, len(t.Entries()))
	return nil
}

func (s *source) describe() (string, error) {
	if s.description != "" {
		text, err := os.ReadFile(s.description)
		if err != nil {
			return "", fmt.Errorf("describe machine %q: %w", s.name, err)
		}
		return string(text), nil
	}
	old, err := os.ReadFile(filepath.Join(*s.dir, s.name+".txtar"))
	if errors.Is(err, os.ErrNotExist) && s.text != "" {
		return s.text, nil
	}
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("describe machine %q: a new machine needs --description FILE, which says what it is, and has the lines Source: and Peculiar:; %w", s.name, err)
	}
	if err != nil {
		return "", fmt.Errorf("describe machine %q: %w", s.name, err)
	}
	description, _, err := tree.Parse(old)
	return description, err
}
