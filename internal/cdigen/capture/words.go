package capture

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
)

// word is a name that identifies: a host's, a user's, or a word of a node description.
type word struct {
	text  string // in lower case
	with  string // what stands for it
	kind  string // what it is, for an error
	whole bool   // only as a word of its own: a short one is a part of too many others
}

// Kinds of what a scrubber replaces, as an error names them.
const (
	kindHost    = "a name of the host"
	kindDesc    = "a word of a node description"
	kindUser    = "a name of a user"
	kindAddress = "an address of the host"
	kindHidden  = "a value of a CDI spec"
)

// common are words that a host, a user or a value may have, and that say nothing, since each report has them.
const common = `localhost localdomain host domain user home root (hidden) (address) nobody container ubuntu debian fedora
	rocky almalinux centos rhel suse flatcar talos bottlerocket linux kernel gnu true false none null unlimited
	active down init armed defer ethernet infiniband link linkup polling disabled sleep unknown mellanox technologies
	broadcom intel roce report readme machine versions doctor specs txtar source peculiar developers import
	summary errors warnings infos findings id group severity error warning info title subjects reason fix unseen what
	cdiVersion kind annotations devices name containerEdits env deviceNodes netDevices hooks mounts intelRdt
	additionalGids path hostPath type major minor fileMode permissions uid gid containerPath options hookName args timeout
	closID l3CacheSchema memBwSchema schemata enableMonitoring hostInterfaceName`

// saysNothing reports whether a word is, or is a part of, one of the common words.
func saysNothing(text string) bool {
	return slices.ContainsFunc(strings.Fields(common), func(w string) bool {
		w = strings.ToLower(w)
		return w == text || len(text) > 3 && strings.Contains(w, text)
	})
}

// Names are the names that identify a host besides its addresses.
type Names struct {
	Hosts, Users []string
}

// hostWords returns the words that identify the host: its names, in whole and in part, and what node descriptions
// (written by rdma-ndd: "node17 mlx5_0") have besides a driver's words. A word that sysfs itself uses stays.
func hostWords(t *tree.Tree, names Names) []word {
	own := map[string]bool{}
	fixed := fixedNames(t)
	for _, name := range fixed {
		for _, w := range strings.FieldsFunc(name, notAlnum) {
			own[strings.ToLower(w)] = true
		}
	}
	var words []word
	add := func(text, with, kind string) {
		text = strings.ToLower(text)
		if len(text) < 3 || own[text] || saysNothing(text) || !strings.ContainsFunc(text, unicode.IsLetter) {
			return
		}
		own[text] = true
		partOf := func(name string) bool { return strings.Contains(strings.ToLower(name), text) }
		whole := len(text) < 5 || kind != kindHost || slices.ContainsFunc(fixed, partOf)
		words = append(words, word{text, with, kind, whole})
	}
	for _, name := range names.Hosts {
		short, domain, _ := strings.Cut(name, ".")
		add(name, "host", kindHost)
		add(short, "host", kindHost)
		if strings.Contains(domain, ".") {
			add(domain, "domain", kindHost)
		}
	}
	for _, name := range names.Users {
		add(name, "user", kindUser)
	}
	for _, e := range t.Entries() {
		if path.Base(e.Path) != "node_desc" || ofDriver.MatchString(e.Data) {
			continue
		}
		for _, text := range strings.Fields(strings.ReplaceAll(e.Data, path.Base(path.Dir(e.Path)), " ")) {
			if text = strings.TrimFunc(text, notAlnum); !strings.Contains(text, "mlx") {
				add(text, "host", kindDesc)
			}
		}
	}
	// A long name goes first, so that its domain goes with it.
	slices.SortStableFunc(words, func(a, b word) int { return len(b.text) - len(a.text) })
	return words
}

func notAlnum(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// fixedNames returns the names in a tree that the kernel gives.
func fixedNames(t *tree.Tree) []string {
	given := map[string]bool{}
	for _, name := range namesIn(t) {
		given[name], given["lower_"+name], given["upper_"+name] = true, true, true
	}
	seen := map[string]bool{}
	var names []string
	for _, e := range t.Entries() {
		if name := path.Base(e.Path); !given[name] && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// ofDriver are the node descriptions that drivers give (mlx5: firmware; drivers/infiniband/sw).
var ofDriver = regexp.MustCompile(`^(MT[0-9]+ (ConnectX|BlueField)[-0-9A-Z]*x?( Family mlx5Gen Virtual Function)?` +
	`( +Mellanox Technologies)?|rxe|Software iWARP stack|)\n?$`)

// description returns a node description without the words of the site.
func (s *Scrubber) description(hca, text string) string {
	if ofDriver.MatchString(text) {
		return text
	}
	scrubbed := "host"
	if strings.Contains(text, hca) {
		scrubbed += " " + s.renames(hca)
	}
	if strings.HasSuffix(text, "\n") {
		scrubbed += "\n"
	}
	return scrubbed
}

// named replaces the words of the host in a text.
func (s *Scrubber) named(text string) string {
	for _, w := range s.words {
		for at := 0; ; {
			found := w.find(text[at:])
			if found < 0 {
				break
			}
			text = text[:at+found] + w.with + text[at+found+len(w.text):]
			at += found + len(w.with)
		}
	}
	return text
}

// find returns where a text has the word, -1 if nowhere.
func (w *word) find(text string) int {
	lower := asciiLower(text)
	for at := 0; ; {
		i := strings.Index(lower[at:], w.text)
		if i < 0 {
			return -1
		}
		at += i
		end := at + len(w.text)
		apart := (at == 0 || !alnum(lower[at-1])) && (end == len(lower) || !alnum(lower[end]))
		if !w.whole || apart {
			return at
		}
		at++
	}
}

// asciiLower keeps the length of a text, unlike strings.ToLower.
func asciiLower(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

func alnum(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
