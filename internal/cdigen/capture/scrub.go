package capture

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/address"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
)

// Scrubber replaces what identifies a host, in a tree of its sysfs and in texts about it: the device part of MAC
// addresses, GUIDs and GIDs, IP addresses, names of the host, of users and in node descriptions, and what [Hide] got.
// It replaces the same value by the same text, in names, links and contents, in each spelling. [Scrubber.Leak] searches
// for what it should have replaced.
type Scrubber struct {
	*addresses
	words   []word
	renamed map[string]string // names of interfaces and HCAs that identify
	known   map[string]bool   // names and contents of the tree
	hidden  []string          // the longest first
}

// NewScrubber returns a scrubber for the host of a tree. names are those of the host.
func NewScrubber(t *tree.Tree, names Names) *Scrubber {
	own := namesIn(t)
	s := &Scrubber{addresses: newAddresses(t, own), renamed: map[string]string{}, known: map[string]bool{}}
	for _, e := range t.Entries() {
		s.known[path.Base(e.Path)], s.known[strings.TrimSpace(e.Data)] = true, true
	}
	s.words = hostWords(t, names)
	s.rename(own)
	return s
}

// userDirs hold the names that people and udev give.
var userDirs = []string{"sys/class/net", "sys/class/infiniband"}

// namesIn returns the names of the interfaces and HCAs of a tree.
func namesIn(t *tree.Tree) []string {
	var names []string
	for _, dir := range userDirs {
		for _, e := range t.Children(dir) {
			names = append(names, path.Base(e.Path))
		}
	}
	return names
}

// rename gives names that identify others, two names never the same one.
func (s *Scrubber) rename(names []string) {
	taken := map[string]bool{}
	for _, name := range names {
		taken[name] = true
	}
	for _, name := range names {
		scrubbed := s.named(s.digits(address.EachIP(name, func(ip netip.Addr) string { return s.ips[ip] })))
		if scrubbed == name {
			continue
		}
		free := scrubbed
		for i := 2; taken[free]; i++ {
			free = fmt.Sprintf("%s-%d", scrubbed, i)
		}
		taken[free], s.renamed[name] = true, free
	}
}

// Tree returns the tree without what identifies the host. It is an error if something is left.
func (s *Scrubber) Tree(t *tree.Tree) (*tree.Tree, error) {
	out := &tree.Tree{}
	for _, e := range t.Entries() {
		original := e.Path
		e.Path, e.Target = s.path(e.Path), s.path(e.Target)
		if e.Kind == tree.File {
			e.Data = s.file(original, e.Data)
		}
		for _, text := range []string{e.Path, e.Target, e.Data} {
			if kind := s.Leak(text); kind != "" {
				return nil, fmt.Errorf("scrub capture: %s is left in %s", kind, s.withheld(e.Path))
			}
		}
		if err := out.Write(e); err != nil {
			return nil, fmt.Errorf("scrub capture: %w", err)
		}
	}
	return out, nil
}

// withheld returns a path for an error, without the names that identify.
func (s *Scrubber) withheld(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if s.Leak(part) != "" {
			parts[i] = "(withheld)"
		}
	}
	return strings.Join(parts, "/")
}

// path scrubs the name of a file, or the target of a link.
func (s *Scrubber) path(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = s.digits(s.renames(part))
	}
	return strings.Join(parts, "/")
}

// nameWord is what may be the name of an interface or HCA within a text.
var nameWord = regexp.MustCompile(`[[:alnum:]_.\-]+`)

// renames replaces names of interfaces and HCAs, also after lower_ (the link of a bond to its members).
func (s *Scrubber) renames(text string) string {
	if len(s.renamed) == 0 {
		return text
	}
	return nameWord.ReplaceAllStringFunc(text, func(word string) string {
		prefix := ""
		for _, link := range []string{"lower_", "upper_"} {
			if strings.HasPrefix(word, link) {
				prefix = link
			}
		}
		if name, known := s.renamed[strings.TrimPrefix(word, prefix)]; known {
			return prefix + name
		}
		if end := strings.TrimRight(word, ".-"); end != word && s.renamed[end] != "" { // the end of a sentence
			return s.renamed[end] + word[len(end):]
		}
		return word
	})
}

// file scrubs the content of a file.
func (s *Scrubber) file(name, data string) string {
	switch {
	case path.Base(name) == "vpd":
		return scrubVPD(data)
	case path.Base(name) == "node_desc":
		return s.description(path.Base(path.Dir(name)), data)
	case path.Base(name) == "phys_switch_id" && s.switches[strings.TrimSpace(data)] != "":
		return strings.Replace(data, strings.TrimSpace(data), s.switches[strings.TrimSpace(data)], 1)
	case identifying(name):
		for _, re := range []*regexp.Regexp{address.MAC, address.GUID} {
			data = re.ReplaceAllStringFunc(data, s.address)
		}
	}
	data = address.EachIP(data, func(ip netip.Addr) string { return s.ips[ip] })
	return s.named(s.digits(s.renames(data)))
}

// address maps an address that stands alone.
func (s *Scrubber) address(text string) string {
	return overwrite(text, s.mapped(address.Digits(text)))
}

// overwrite writes digits over those of a text. Its punctuation and its case stay.
func overwrite(text, digits string) string {
	upper := strings.ToUpper(text) == text && strings.ToLower(text) != text
	if upper {
		digits = strings.ToUpper(digits)
	}
	out, next := []byte(text), 0
	for i, c := range out {
		if isHex(c) && next < len(digits) {
			out[i] = digits[next]
			next++
		}
	}
	return string(out)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func isSeparator(c byte) bool { return c == ':' || c == '-' || c == '.' }

// digits replaces the addresses of the host within a text, with or without separators.
func (s *Scrubber) digits(text string) string {
	if len(s.spelled) == 0 {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		end := i
		for end < len(text) && (isHex(text[end]) || end > i && isSeparator(text[end]) && isHex(text[end-1])) {
			end++
		}
		if end == i {
			out.WriteByte(text[i])
			i++
			continue
		}
		out.WriteString(s.run(text[i:end]))
		i = end
	}
	return out.String()
}

// run replaces the addresses in a run of digits and separators.
func (s *Scrubber) run(text string) string {
	if len(text) < s.lengths[len(s.lengths)-1] {
		return text
	}
	text = groupText.ReplaceAllStringFunc(text, s.padded)
	out, at := []byte(text), make([]int, 0, len(text)) // at: the places of the digits
	for i := range out {
		if isHex(out[i]) {
			at = append(at, i)
		}
	}
	digits := address.Digits(strings.ReplaceAll(text, ".", ""))
	for i := 0; i < len(digits); i++ {
		for _, n := range s.lengths {
			if i+n > len(digits) {
				continue
			}
			if to, known := s.spelled[digits[i:i+n]]; known {
				first, last := at[i], at[i+n-1]+1
				copy(out[first:last], overwrite(text[first:last], to))
				i += n - 1
				break
			}
		}
	}
	return string(out)
}

// groupText may be an address whose groups lack leading zeros: 0:0:5e:0:53:1.
var groupText = regexp.MustCompile(`[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){3,7}`)

// padded maps such an address of the host.
func (s *Scrubber) padded(text string) string {
	groups := strings.Split(text, ":")
	width := map[int]int{6: 2, 4: 4, 8: 4}[len(groups)]
	var digits strings.Builder
	for _, group := range groups {
		if len(group) > width {
			return text
		}
		digits.WriteString(strings.Repeat("0", width-len(group)) + strings.ToLower(group))
	}
	own := digits.String()
	if gid := gidOf(own); gid != "" {
		own = gid[16:]
	}
	if _, known := s.spelled[own]; !known || len(text) >= digits.Len()+len(groups)-1 {
		return text // unknown, or with all zeros
	}
	mapped := s.mapped(digits.String())
	var out []string
	for i := 0; i < len(mapped); i += width {
		out = append(out, mapped[i:i+width])
	}
	return strings.Join(out, ":")
}

// Hide makes the scrubber replace values that others wrote, such as the arguments of their hooks. It leaves out what is
// too short to be told from other text, and what the tree itself has: an interface, a PCI address.
func (s *Scrubber) Hide(values ...string) {
	for _, value := range values {
		value = strings.TrimSpace(value)
		short := len(value) < 4 || numberText.MatchString(value) || saysNothing(strings.ToLower(value))
		if !short && !s.known[value] {
			s.hidden = append(s.hidden, value)
		}
	}
	slices.SortFunc(s.hidden, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	s.hidden = slices.Compact(s.hidden)
}

var numberText = regexp.MustCompile(`^[0-9.]+$`)
