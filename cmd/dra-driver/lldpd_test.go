package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

// TestLLDPD: the script for hosts with lldpd makes a table of links from what lldpcli prints (its format json0, as in
// lldpd, tests/integration/test_lldpcli.py). A host counts only on a cable without a switch. A failure keeps the file.
func TestLLDPD(t *testing.T) {
	needs.Program(t, "jq", "hack/install-packages.sh test")
	dir := t.TempDir()
	table := filepath.Join(dir, "links", "links.json")
	convert := func(lldpcli string) error {
		program := filepath.Join(dir, "lldpcli")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+lldpcli+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(program, 0o755); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		cmd := exec.Command(filepath.Join("..", "..", "deployments", "lldpd", "rdma-links"), table)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	links := func() (out []string) {
		data, err := os.ReadFile(table)
		var read v1alpha1.LinkTable
		if err == nil {
			err = yamlread.Table.Decode(data, &read)
		}
		if err == nil {
			err = read.Check(false)
		}
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(read.Time); age < -time.Hour || age > time.Hour {
			t.Errorf("the table is of %v", read.Time)
		}
		if info, err := os.Stat(table); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("the table has mode %v, %v", info.Mode(), err)
		}
		for _, l := range read.Links {
			out = append(out, strings.Join([]string{l.HCA, l.Leaf, l.Port}, " "))
		}
		return out
	}
	fixture, err := filepath.Abs("testdata/lldpcli-json0.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := convert(`[ "$*" = "-f json0 show neighbors" ] && cat ` + fixture); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"eth0 leaf-7.example.com Ethernet1/7", "eth2 0c:42:a1:00:00:08 swp2", "eth3 leaf-9 swp1", "eth3 leaf-10 swp1",
	}
	if diff := cmp.Diff(want, links()); diff != "" {
		t.Errorf("links differ (-want +got):\n%s", diff)
	}
	for _, fails := range []string{"exit 1", "echo no JSON"} {
		if err := convert(fails); err == nil {
			t.Errorf("lldpcli %q is no failure", fails)
		}
		if diff := cmp.Diff(want, links()); diff != "" {
			t.Errorf("after a failure, links differ (-want +got):\n%s", diff)
		}
	}
	if err := convert(`echo '{"lldp": [{}]}'`); err != nil {
		t.Fatal(err)
	}
	if got := links(); got != nil {
		t.Errorf("without neighbors, links are %v", got)
	}
}

// TestTableOfPage: the table of the page about leaf switches is one.
func TestTableOfPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "leaf-switches.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "apiVersion: rdma.dev/v1alpha1\nkind: LinkTable\n")
	table, _, ended := strings.Cut(table, "```")
	if !found || !ended {
		t.Fatal("the page has no LinkTable")
	}
	var read v1alpha1.LinkTable
	if err := yamlread.Table.Decode([]byte("apiVersion: rdma.dev/v1alpha1\nkind: LinkTable\n"+table), &read); err != nil {
		t.Fatal(err)
	}
	if err := read.Check(true); err != nil {
		t.Error(err)
	}
}
