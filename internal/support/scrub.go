package support

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// Scrubber replaces what identifies hosts, a cluster and users in texts: names, addresses, and what looks like a
// secret. The same value gets the same words in all texts. [Scrubber.Leak] searches for what should have been replaced.
type Scrubber struct {
	key     []byte // random for each archive
	inNames bool   // of one host, whose name may be a part of other names
	kept    string // words that each archive has
	names   map[string]name
	lengths []int             // of the names, the longest first
	count   map[string]int    // of the names of a kind
	known   map[string]string // what stands for the addresses of the host, by each spelling
	spans   map[int]bool      // lengths of these
	made    map[string]bool   // what stands for them
}

// name is a text that identifies.
type name struct {
	with, kind string
	anywhere   bool // also as a part of a word
}

// New returns a scrubber with a random key, or with the key of a test.
func New(key []byte) *Scrubber {
	if key == nil {
		key = []byte(rand.Text())
	}
	return &Scrubber{key: key, names: map[string]name{}, count: map[string]int{}, known: map[string]string{},
		spans: map[int]bool{}, made: map[string]bool{}}
}

// NewForHost returns a scrubber for one host, whose name may be a part of other names and of paths: "host-1" stands for
// it there.
func NewForHost(key []byte) *Scrubber {
	s := New(key)
	s.inNames = true
	return s
}

// Keep makes words stay that say nothing, since each host has them, or that are said anyway. Call it before Name, Host
// and Hide get them.
func (s *Scrubber) Keep(words ...string) { s.kept += " " + lower(strings.Join(words, " ")) }

// Name makes the scrubber replace a name of a kind where it is a word of its own. The first kind of a name counts.
func (s *Scrubber) Name(kind, text string) { s.number(kind, text, false) }

// Host makes the scrubber replace the name of a host, and its domain. Of one host, it replaces a long name anywhere.
func (s *Scrubber) Host(full string) {
	short, domain, _ := strings.Cut(full, ".")
	for _, part := range []struct{ kind, text string }{{"host", full}, {"host", short}, {"domain", domain}} {
		if part.kind == "host" || strings.Contains(domain, ".") {
			long := len(part.text) >= 5 && !strings.Contains(s.kept, lower(part.text))
			s.number(part.kind, part.text, s.inNames && long)
		}
	}
}

func (s *Scrubber) number(kind, text string, anywhere bool) {
	form := "(%s %d)"
	if s.inNames {
		form = "%s-%d"
	}
	with := fmt.Sprintf(form, kind, s.count[kind]+1)
	if s.add(text, name{with: with, kind: "a name of a " + kind, anywhere: anywhere}) {
		s.count[kind]++
	}
}

// Hidden stands for a secret, and for what somebody else wrote.
const Hidden = "(hidden)"

var numberText = regexp.MustCompile(`^[0-9.]+$`)

// Hide makes the scrubber hide a value that somebody else wrote, such as the argument of a hook. It leaves out what is
// too short to be told from other text.
func (s *Scrubber) Hide(value string) {
	value = strings.TrimSpace(value)
	if len(value) >= 4 && !numberText.MatchString(value) && !strings.Contains(s.kept, lower(value)) {
		s.add(value, name{with: Hidden, kind: "a value of a CDI spec", anywhere: true})
	}
}

// shortest is the length from which a name is searched for in texts. A shorter one is a part of too many others: only
// NameOf finds it.
const shortest = 3

func (s *Scrubber) add(text string, n name) bool {
	key := lower(text)
	_, known := s.names[key]
	isNumber := s.inNames && strings.Trim(key, "0123456789") == ""
	if known || isNumber || key == "" || hasWord(s.kept, key) {
		return false
	}
	s.names[key] = n
	if len(key) >= shortest && !slices.Contains(s.lengths, len(key)) {
		s.lengths = append(s.lengths, len(key))
		slices.SortFunc(s.lengths, func(a, b int) int { return b - a })
	}
	return true
}

func hasWord(text, word string) bool {
	for at := 0; ; at++ {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		if at += i; isWord(text, at, at+len(word)) {
			return true
		}
	}
}

// isWord reports whether a part of a text is a word of its own.
func isWord(text string, from, to int) bool {
	return !inWord(text, from) && !inWord(text, to)
}

// inWord reports whether a letter or digit is on each side of a place in a text.
func inWord(text string, at int) bool {
	return at > 0 && at < len(text) && alnum(text[at-1]) && alnum(text[at])
}

// nameAt returns the longest name at a place of a text in lower case, "" for none.
func (s *Scrubber) nameAt(text string, at int) string {
	if !s.inNames && inWord(text, at) {
		return ""
	}
	for _, length := range s.lengths {
		to := at + length
		if to > len(text) {
			continue
		}
		if n, known := s.names[text[at:to]]; known && (n.anywhere || isWord(text, at, to)) {
			return text[at:to]
		}
	}
	return ""
}

// NameOf returns what stands for a whole name in a field. One that is not known is hidden.
func (s *Scrubber) NameOf(text string) string {
	n, known := s.names[lower(text)]
	switch {
	case text == "":
		return ""
	case !known:
		return Hidden
	}
	return n.with
}

// secrets are what looks like a token, a password, a key, or a host in a URL.
var secrets = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [^-\n]+-----.*?(-----END [^-\n]+-----|$)`), Hidden},
	{regexp.MustCompile(`\beyJ[\w-]{6,}(\.[\w-]*){0,2}`), Hidden},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}`), "${1} " + Hidden},
	{regexp.MustCompile(`(?i)((?:token|passw(?:or)?d|secret|api[-_]?key|authorization)\\?["']?\s*[=:]\s*\\?["']?)` +
		`(?:\(hidden\)|[^\s"'\\,;&)]{2,})`),
		"${1}" + Hidden},
	{regexp.MustCompile(`(\bUser \\?")[^"\\\n]+`), "${1}" + Hidden}, // whom the API server refuses
	{regexp.MustCompile(`(\b[a-z][a-z0-9+.-]*://)([^/\s"'\\]*@)?[^/\s"'\\:?]+`), "${1}(host)"},
	{regexp.MustCompile(`((?:/[\w.-]+)*/(?:home|Users)/)[^/\s"':,;]+`), "${1}(user)"},
}

// escapes are those of quoted texts in logs. What follows them begins a word of its own.
var escapes = strings.NewReplacer(`\n`, `\n `, `\t`, `\t `, `\r`, `\r `)

// Text returns a text without what identifies.
func (s *Scrubber) Text(text string) string {
	text = escapes.Replace(text)
	for _, secret := range secrets {
		text = secret.re.ReplaceAllString(text, secret.with)
	}
	return addressText.ReplaceAllStringFunc(s.named(text), s.address)
}

// named replaces the names in a text.
func (s *Scrubber) named(text string) string {
	low := lower(text)
	var out strings.Builder
	from := 0
	for i := 0; i < len(text); i++ {
		if found := s.nameAt(low, i); found != "" {
			out.WriteString(text[from:i] + s.names[found].with)
			from = i + len(found)
			i = from - 1
		}
	}
	return out.String() + text[from:]
}

// JSON encodes a value whose texts, and keys, are without what identifies.
func (s *Scrubber) JSON(value any) ([]byte, error) {
	data, err := json.Marshal(value)
	var plain any
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		err = decoder.Decode(&plain)
	}
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = text.JSON(&out, s.value(plain))
	return out.Bytes(), err
}

// value replaces in all texts of a decoded JSON value.
func (s *Scrubber) value(v any) any {
	switch v := v.(type) {
	case string:
		return s.Text(v)
	case []any:
		for i := range v {
			v[i] = s.value(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			name := s.Text(key)
			for i := 2; out[name] != nil; i++ { // two keys that look alike now
				name = fmt.Sprintf("%s %d", s.Text(key), i)
			}
			out[name] = s.value(v[key])
		}
		return out
	}
	return v
}

// Leak searches a text for what the scrubber must have replaced, and returns the kind of what it finds, "" for nothing.
func (s *Scrubber) Leak(text string) string {
	low := lower(text)
	for i := range len(low) {
		if found := s.nameAt(low, i); found != "" {
			return s.names[found].kind
		}
	}
	if s.shows(low) {
		return "an address of the host"
	}
	return ""
}

// lower keeps the length of a text, unlike strings.ToLower.
func lower(text string) string {
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
