package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

// TestLinksOfHost: the script makes a table of links from what lldpcli prints (its format json0, as in lldpd,
// tests/integration/test_lldpcli.py), or nmcli (recorded from version 1.42.4, with a line feed in the name of a
// switch). A host counts only on a cable without a switch. A failure keeps the file.
func TestLinksOfHost(t *testing.T) {
	needs.Program(t, "jq", "hack/install-packages.sh test")
	for program, c := range map[string]struct {
		args, recorded string
		want           []string
		fails          []string
		none           string
		hostile        string // beside a leaf: no name, three names, characters that YAML lacks, an entry without meaning
	}{
		"lldpcli": {
			args: "-f json0 show neighbors", recorded: "lldpcli-json0.json",
			want: []string{
				"eth0 leaf-7.example.com Ethernet1/7", "eth2 0c:42:a1:00:00:08 swp2", "eth3 leaf-10 swp1",
				"eth3 leaf-9 swp1",
			},
			fails: []string{"exit 1", "echo no JSON"}, none: `echo '{"lldp": [{}]}'`,
			hostile: `{"lldp":[{"interface":[
				{"name":"ens1","via":"LLDP","chassis":[{"id":[{"value":"0c:42:a1:00:00:01"}],"name":[{"value":"leaf-7"}],"capability":[{"type":"Bridge","enabled":true}]}],"port":[{"id":[{"value":"swp1"}]}]},
				{"name":"eth0","via":"LLDP","chassis":[{"id":[{"value":"de:ad:be:ef:00:01"}],"name":[{"value":""}]}],"port":[{"id":[{"value":"x"}]}]},
				{"name":"eth1","via":"LLDP","chassis":[{"id":7,"name":"x"}],"port":"x"}, 7,
				{"name":"eth0","via":"LLDP","chassis":[{"name":[{"value":"\u0085\u001b\u2028\ufffe"}]}],"port":[]},
				{"name":"eth0","via":"LLDP","chassis":[{"name":[{"value":"~"}]}],"port":[]}]}]}`,
		},
		"nmcli": {
			args: "--terse --mode multiline --fields all device lldp list", recorded: "nmcli-lldp.txt",
			want:  []string{`eth0 leaf-7:x\012NEIGHBOR[9].DEVICE:ib0 Ethernet1/7`, "eth1 0c:42:a1:00:00:08 swp2"},
			fails: []string{"exit 1", "echo NEIGHBOR[0].DEVICE:eth0"}, none: "exit 0",
			hostile: strings.Join([]string{
				"NEIGHBOR[0].DEVICE:ens1", "NEIGHBOR[0].CHASSIS-ID:0C:42:A1:00:00:01", "NEIGHBOR[0].PORT-ID:swp1", "NEIGHBOR[0].SYSTEM-NAME:leaf-7",
				"NEIGHBOR[1].DEVICE:eth0", "NEIGHBOR[1].CHASSIS-ID:DE:AD:BE:EF:00:01", "NEIGHBOR[1].PORT-ID:x",
				"NEIGHBOR[1].SYSTEM-NAME:", "NEIGHBOR[2].DEVICE:eth1",
				"NEIGHBOR[3].DEVICE:eth0", "NEIGHBOR[3].SYSTEM-NAME:\u0085\u001b\u2028\ufffe",
				"NEIGHBOR[4].DEVICE:eth0", "NEIGHBOR[4].SYSTEM-NAME:~"}, "\n"),
		},
	} {
		t.Run(program, func(t *testing.T) {
			h := newLinksOfHost(t, program)
			recorded, err := filepath.Abs(filepath.Join("testdata", c.recorded))
			must.NoError(t, err)
			must.NoError(t, h.run(fmt.Sprintf(`[ "$*" = %q ] && cat %s`, c.args, recorded)))
			h.want(c.want)
			for _, fails := range c.fails {
				test.Error(t, h.run(fails), test.Sprintf("%q is no failure", fails))
				h.want(c.want)
			}
			if c.hostile != "" {
				test.NoError(t, h.run("cat <<'E'\n"+c.hostile+"\nE"))
				h.want([]string{"ens1 leaf-7 swp1", "eth0 \x01\x01\x01\x01 ", "eth0 de:ad:be:ef:00:01 x"})
			}
			must.NoError(t, h.run(c.none))
			h.want(nil)
		})
	}
}

// linksOfHost is a host with one of the programs that the script of links asks, and few others.
type linksOfHost struct {
	*testing.T
	bin, program, table string
}

func newLinksOfHost(t *testing.T, program string) *linksOfHost {
	t.Helper()
	table := filepath.Join(t.TempDir(), "links", "links.json")
	h := &linksOfHost{T: t, bin: t.TempDir(), program: program, table: table}
	for _, name := range []string{"sh", "cat", "chmod", "dirname", "jq", "mkdir", "mv"} {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(h.bin, name))
		}
		must.NoError(t, err)
	}
	return h
}

// run runs the script, whose program is a line of shell.
func (h *linksOfHost) run(line string) error {
	h.Helper()
	program := filepath.Join(h.bin, h.program)
	err := errors.Join(os.WriteFile(program, []byte("#!/bin/sh\n"+line+"\n"), 0o755), os.Chmod(program, 0o755))
	if err != nil {
		h.Fatal(err)
	}
	cmd := exec.Command(filepath.Join("..", "..", "deployments", "leaf-switches", "rdma-links"), h.table)
	cmd.Env = []string{"PATH=" + h.bin}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// want compares the table's links: HCA, leaf and port of each.
func (h *linksOfHost) want(want []string) {
	h.Helper()
	data, err := os.ReadFile(h.table)
	var read v1alpha1.LinkTable
	if err == nil {
		err = yamlread.Table.Decode(data, &read)
	}
	if err == nil {
		err = read.Check(false)
	}
	if err != nil {
		h.Fatal(err)
	}
	if age := time.Since(read.Time); age < -time.Hour || age > time.Hour {
		h.Errorf("the table is of %v", read.Time)
	}
	if info, err := os.Stat(h.table); err != nil || info.Mode().Perm() != 0o644 {
		h.Errorf("the table has mode %v, %v", info.Mode(), err)
	}
	var got []string
	for _, l := range read.Links {
		got = append(got, strings.Join([]string{l.HCA, l.Leaf, l.Port}, " "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.Errorf("links differ (-want +got):\n%s", diff)
	}
}

// TestFabricLinks: the script for InfiniBand makes a table of links from what iblinkinfo prints (version 44, of a
// fabric that ibsim simulates). What a node calls itself changes nothing. A switch whose name another one has too is
// named by its GUID. A failure prints nothing.
func TestFabricLinks(t *testing.T) {
	data, err := os.ReadFile("testdata/iblinkinfo-line.txt")
	must.NoError(t, err)
	printed := string(data)
	const node1, node2, last = "0x0000000000100001", "0x0000000000100003", "0x0000000000100005"
	const node3, node3b = "0x0000000000100007", "0x000000000010000a"
	named := []string{
		node3 + " unnamed 1 blue", node3b + " unnamed 2 blue", node1 + " leaf-7 1 blue", node2 + " leaf-7 2 blue",
		last + " leaf-7 3 blue",
	}
	const switch1, switch2 = "0x0000000000200001", "0x0000000000200000"
	for name, c := range map[string]struct {
		printed string
		want    []string
	}{
		"recorded": {printed, named},
		"a node with quotes": {
			strings.Replace(printed, `"worker-3 mlx5_0"`, `"" 0 7[  ] ==>  0x1 "x" (`, 1), named,
		},
		"one name for two": {strings.ReplaceAll(printed, " leaf-7\"", "unnamed\""), []string{
			node3 + " " + switch1 + " 1 blue", node3b + " " + switch1 + " 2 blue", node1 + " " + switch2 + " 1 blue",
			node2 + " " + switch2 + " 2 blue", last + " " + switch2 + " 3 blue",
		}},
		"a name with quotes": {strings.ReplaceAll(printed, " leaf-7\"", ` leaf\7"`), []string{
			named[0], named[1], node1 + ` leaf\7 1 blue`, node2 + ` leaf\7 2 blue`, last + ` leaf\7 3 blue`,
		}},
		// A switch with quotes in its name says nothing, and names no other: neither leaf-7's name nor its links change.
		"a switch with quotes": {strings.ReplaceAll(printed, "unnamed\"", "un\"named\""), named[2:]},
		"a switch with the name and links of another one": {
			strings.ReplaceAll(printed, "unnamed\"", `leaf-7"  0  9[  ] ==(  )==>  `+node1+`  0  1[ ] "x"`), named[2:],
		},
		"nothing": {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := fabricLinks(t, c.printed, 0)
			must.NoError(t, err)
			var read v1alpha1.LinkTable
			if err := errors.Join(yamlread.Table.Decode([]byte(table), &read), read.Check(true)); err != nil {
				t.Fatalf("%v\n%s", err, table)
			}
			var links []string
			for _, l := range read.Links {
				links = append(links, strings.Join([]string{l.GUID, l.Leaf, l.Port, l.Fabric}, " "))
			}
			test.Eq(t, c.want, links, test.Sprint("links differ"))
		})
	}
	if table, err := fabricLinks(t, printed, 1); err == nil || table != "" {
		t.Errorf("iblinkinfo fails, and the script prints %q, %v", table, err)
	}
}

// fabricLinks runs the script for InfiniBand with an iblinkinfo that prints a text and ends with a status.
func fabricLinks(t *testing.T, printed string, status int) (string, error) {
	t.Helper()
	dir := t.TempDir()
	program, text := filepath.Join(dir, "iblinkinfo"), filepath.Join(dir, "text")
	const args = "--line --switches-only -C mlx5_0"
	script := fmt.Sprintf("#!/bin/sh\n[ \"$*\" = %q ] && cat %s && exit %d\n", args, text, status)
	err := errors.Join(os.WriteFile(text, []byte(printed), 0o644), os.WriteFile(program, []byte(script), 0o755),
		os.Chmod(program, 0o755)) // whatever the umask is
	must.NoError(t, err)
	cmd := exec.Command(filepath.Join("..", "..", "deployments", "leaf-switches", "rdma-fabric-links"), "-C", "mlx5_0")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "FABRIC=blue")
	out, err := cmd.Output()
	return string(out), err
}

// TestTableOfPage: the table of the page about leaf switches is one.
func TestTableOfPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "leaf-switches.md"))
	must.NoError(t, err)
	const head = "apiVersion: rdma.dev/v1alpha1\nkind: LinkTable\n"
	_, table, found := strings.Cut(string(page), head)
	table, _, ended := strings.Cut(table, "```")
	if !found || !ended {
		t.Fatal("the page has no LinkTable")
	}
	var read v1alpha1.LinkTable
	test.NoError(t, errors.Join(yamlread.Table.Decode([]byte(head+table), &read), read.Check(true)))
}
