package bundle

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/address"
)

// scrubber replaces what identifies a cluster, its users and its hosts: the same value by the same words, "(node 1)".
// It hides what looks like a secret.
type scrubber struct {
	names   map[string]string // by name, in lower case
	lengths []int             // of the names, the longest first
	made    map[string]string // for addresses
	count   map[string]int    // of each kind
}

func newScrubber() *scrubber {
	return &scrubber{names: map[string]string{}, made: map[string]string{}, count: map[string]int{}}
}

// shortestName is the length from which a name is searched for in texts. A shorter one is a part of too many others.
const shortestName = 3

// add makes the scrubber replace a name of a kind. The first kind of a name counts.
func (s *scrubber) add(kind, name string) {
	key := asciiLower(name)
	if len(name) < shortestName || s.names[key] != "" {
		return
	}
	s.names[key] = s.next(kind)
	if !slices.Contains(s.lengths, len(key)) {
		s.lengths = append(s.lengths, len(key))
		slices.SortFunc(s.lengths, func(a, b int) int { return b - a })
	}
}

func (s *scrubber) next(kind string) string {
	s.count[kind]++
	return fmt.Sprintf("(%s %d)", kind, s.count[kind])
}

// name returns what stands for a whole name in a field. One that is not known is hidden.
func (s *scrubber) name(name string) string {
	if name == "" {
		return ""
	}
	if with := s.names[asciiLower(name)]; with != "" {
		return with
	}
	return hidden
}

const hidden = "(hidden)"

// secrets are what looks like a token, a password, a key, or a host in a URL.
var secrets = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [^-\n]+-----.*?(-----END [^-\n]+-----|$)`), hidden},
	{regexp.MustCompile(`\beyJ[\w-]{6,}(\.[\w-]*){0,2}`), hidden},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}`), "${1} " + hidden},
	{regexp.MustCompile(`(?i)((?:token|passw(?:or)?d|secret|api[-_]?key|authorization)\\?["']?\s*[=:]\s*\\?["']?)[^\s"'\\,;&)]{2,}`),
		"${1}" + hidden},
	{regexp.MustCompile(`(\b[a-z][a-z0-9+.-]*://)([^/\s"'\\]*@)?[^/\s"'\\:?]+`), "${1}(host)"},
	{regexp.MustCompile(`((?:/[\w.-]+)*/(?:home|Users)/)[^/\s"':,;]+`), "${1}(user)"},
}

// escapes are those of quoted texts in logs. What follows them begins a word of its own.
var escapes = strings.NewReplacer(`\n`, `\n `, `\t`, `\t `, `\r`, `\r `)

// text returns a text without what identifies.
func (s *scrubber) text(text string) string {
	text = escapes.Replace(text)
	for _, secret := range secrets {
		text = secret.re.ReplaceAllString(text, secret.with)
	}
	text = s.named(text)
	hardware := func(found string) string {
		digits := address.Digits(found)
		if strings.Trim(digits, "0") == "" || strings.Trim(digits, "f") == "" {
			return found // it is of nobody
		}
		if ip, err := netip.ParseAddr(found); err == nil {
			return s.address("address", ip.Unmap().String())
		}
		return s.address("hardware address", digits)
	}
	for _, re := range []*regexp.Regexp{address.MAC, address.GUID, address.BareGUID} {
		text = re.ReplaceAllStringFunc(text, hardware)
	}
	return address.EachIP(text, func(ip netip.Addr) string {
		if ip.IsLoopback() || ip.IsUnspecified() {
			return ""
		}
		return s.address("address", ip.String())
	})
}

// maxAddresses bounds the addresses that are told apart.
const maxAddresses = 100_000

func (s *scrubber) address(kind, value string) string {
	if s.made[value] == "" {
		if len(s.made) >= maxAddresses {
			return "(" + kind + ")"
		}
		s.made[value] = s.next(kind)
	}
	return s.made[value]
}

// named replaces the names that stand as words of their own.
func (s *scrubber) named(text string) string {
	lower := asciiLower(text)
	var out strings.Builder
	from := 0
	for i := 0; i < len(text); {
		n := s.nameAt(lower, i)
		if n == 0 {
			i++
			continue
		}
		out.WriteString(text[from:i])
		out.WriteString(s.names[lower[i:i+n]])
		i += n
		from = i
	}
	out.WriteString(text[from:])
	return out.String()
}

// nameAt returns the length of the longest name at a place of a text, 0 for none.
func (s *scrubber) nameAt(text string, i int) int {
	if !alnum(text[i]) || i > 0 && alnum(text[i-1]) {
		return 0 // the API server's names begin and end with a letter or digit
	}
	for _, n := range s.lengths {
		if i+n <= len(text) && (i+n == len(text) || !alnum(text[i+n])) && s.names[text[i:i+n]] != "" {
			return n
		}
	}
	return 0
}

// value replaces in all texts of a decoded JSON value.
func (s *scrubber) value(v any) any {
	switch v := v.(type) {
	case string:
		return s.text(v)
	case []any:
		for i := range v {
			v[i] = s.value(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			name := s.text(key)
			for i := 2; out[name] != nil; i++ { // two keys that look alike now
				name = fmt.Sprintf("%s %d", s.text(key), i)
			}
			out[name] = s.value(v[key])
		}
		return out
	}
	return v
}

// asciiLower keeps the length of a text, unlike strings.ToLower.
func asciiLower(text string) string {
	out := []byte(text)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return string(out)
}

func alnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
