package hook

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the nesting at which encoding/json gives up, too.
const maxDepth = 10000

// maxText bounds a text that is kept, such as the container's ID. Others are passed over,
// and may have any length.
const maxText = 4096

// scanner walks over one JSON text (RFC 8259) while it arrives. It accepts what encoding/json
// accepts, which is fuzzed. It keeps a window of the text: how large an annotation is does
// not matter.
type scanner struct {
	read func([]byte) (int, error) // the next part of the text, nil where the window is all of it
	buf  []byte                    // the window, with its capacity for more
	pos  int                       // in the window
	base int                       // of the window in the text
	err  error                     // of read: io.EOF at the end of the text
}

// more makes the window reach further, and drops what was passed. It waits for what is to
// come, so it is called only where the text cannot be whole yet.
func (s *scanner) more() bool {
	if s.read == nil || s.err != nil {
		return false
	}
	rest := copy(s.buf[:cap(s.buf)], s.buf[s.pos:])
	s.base += s.pos
	n, err := s.read(s.buf[rest:cap(s.buf)])
	s.buf, s.pos, s.err = s.buf[:rest+n], 0, err
	if s.base+len(s.buf) > MaxStateSize {
		s.err = errors.New("more than " + Size(MaxStateSize).String())
		s.buf = s.buf[:rest]
		return false
	}
	return n > 0
}

// has makes sure that so many bytes are in the window, if the text has them.
func (s *scanner) has(n int) bool {
	for len(s.buf)-s.pos < n {
		if !s.more() {
			return false
		}
	}
	return true
}

// fail reports what was expected at the current position.
func (s *scanner) fail(expected string) error {
	if s.pos < len(s.buf) {
		return errors.New("expected " + expected + " at byte " + strconv.Itoa(s.base+s.pos) +
			", found " + strconv.QuoteRune(rune(s.buf[s.pos])))
	}
	if s.err != nil && s.err != io.EOF {
		return s.err
	}
	return errors.New("the text ends where " + expected + " is expected")
}

// peek is the next byte, or 0 at the end; 0 is never valid outside a string.
func (s *scanner) peek() byte {
	if s.pos < len(s.buf) || s.more() {
		return s.buf[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for {
		switch s.peek() {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// rest passes over white space in the window, and fails where there is more. It does not
// wait: a runtime need not close its end.
func (s *scanner) rest() error {
	for ; s.pos < len(s.buf); s.pos++ {
		switch s.buf[s.pos] {
		case ' ', '\t', '\r', '\n':
		default:
			return s.fail("nothing more")
		}
	}
	return nil
}

// take skips white space and then c, if c is next.
func (s *scanner) take(c byte) bool {
	s.space()
	if s.peek() != c {
		return false
	}
	s.pos++
	return true
}

// object calls member for each key of an object, with the scanner in front of
// the value; member must consume the value.
func (s *scanner) object(member func(key string) error) error {
	if !s.take('{') {
		return s.fail("an object")
	}
	if s.take('}') {
		return nil
	}
	for {
		s.space()
		key, _, err := s.str(maxText) // a longer one is none that is known
		if err != nil {
			return err
		}
		if !s.take(':') {
			return s.fail("':'")
		}
		s.space()
		if err := member(key); err != nil {
			return err
		}
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return s.fail("',' or '}'")
		}
	}
}

// array skips an array.
func (s *scanner) array(depth int) error {
	s.pos++
	if s.take(']') {
		return nil
	}
	for {
		if err := s.skip(depth); err != nil {
			return err
		}
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return s.fail("',' or ']'")
		}
	}
}

// skip passes over any value.
func (s *scanner) skip(depth int) error {
	s.space()
	if depth > maxDepth {
		return s.fail("less nesting")
	}
	switch c := s.peek(); {
	case c == '{':
		return s.object(func(string) error { return s.skip(depth + 1) })
	case c == '[':
		return s.array(depth + 1)
	case c == '"':
		_, _, err := s.str(0)
		return err
	case c == '-' || c >= '0' && c <= '9':
		_, err := s.number()
		return err
	case s.word("true"), s.word("false"), s.word("null"):
		return nil
	}
	return s.fail("a value")
}

// word consumes a literal name, if it is next.
func (s *scanner) word(w string) bool {
	if s.peek() != w[0] || !s.has(len(w)) || string(s.buf[s.pos:s.pos+len(w)]) != w {
		return false
	}
	s.pos += len(w)
	return true
}

// digits consumes digits and says whether there was at least one.
func (s *scanner) digits(out []byte) ([]byte, bool) {
	found := false
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		out, found = s.keep(out), true
	}
	return out, found
}

// keep consumes a byte, and keeps it unless there are many.
func (s *scanner) keep(out []byte) []byte {
	if len(out) < maxNumber {
		out = append(out, s.buf[s.pos])
	}
	s.pos++
	return out
}

// maxNumber is more than an integer has: of a longer number only so many bytes are kept.
const maxNumber = 32

// number consumes a number and returns it as it is written.
func (s *scanner) number() (string, error) {
	var out []byte
	ok := true
	if s.peek() == '-' {
		out = s.keep(out)
	}
	if s.peek() == '0' {
		out = s.keep(out)
	} else if out, ok = s.digits(out); !ok {
		return "", s.fail("a digit")
	}
	if s.peek() == '.' {
		if out, ok = s.digits(s.keep(out)); !ok {
			return "", s.fail("a digit")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		out = s.keep(out)
		if c := s.peek(); c == '+' || c == '-' {
			out = s.keep(out)
		}
		if out, ok = s.digits(out); !ok {
			return "", s.fail("a digit")
		}
	}
	return string(out), nil
}

// str consumes a string and decodes it. Like encoding/json it puts U+FFFD for
// bytes that are not UTF-8 and for lone surrogates. Of a string that is longer than limit
// it keeps no more than the beginning, and whole is false.
func (s *scanner) str(limit int) (text string, whole bool, err error) {
	if s.peek() != '"' {
		return "", false, s.fail("a string")
	}
	s.pos++
	var out []byte
	for s.pos < len(s.buf) || s.more() {
		switch c := s.buf[s.pos]; {
		case c == '"':
			s.pos++
			return string(out), len(out) <= limit, nil
		case c < ' ':
			return "", false, s.fail("no control character in a string")
		case c == '\\':
			if out, err = s.escape(out); err != nil {
				return "", false, err
			}
		case c < utf8.RuneSelf:
			out = append(out, c)
			s.pos++
		default:
			for !utf8.FullRune(s.buf[s.pos:]) && s.more() {
			}
			r, size := utf8.DecodeRune(s.buf[s.pos:])
			out = utf8.AppendRune(out, r)
			s.pos += size
		}
		out = out[:min(len(out), limit+1)]
	}
	return "", false, s.fail(`'"'`)
}

// escapes are the characters after a backslash and what they stand for.
const escapes, escaped = `"\/bfnrt`, "\"\\/\b\f\n\r\t"

// escape consumes a backslash and what it introduces, and appends that.
func (s *scanner) escape(out []byte) ([]byte, error) {
	s.pos++
	c := s.peek()
	if c == 'u' {
		s.pos++
		return s.escapedRunes(out)
	}
	if i := strings.IndexByte(escapes, c); i >= 0 {
		s.pos++
		return append(out, escaped[i]), nil
	}
	return nil, s.fail("an escape character")
}

// escapedRunes consumes the hexadecimal digits after \u, and further such escapes where
// they may be the second of a surrogate pair.
func (s *scanner) escapedRunes(out []byte) ([]byte, error) {
	r, err := s.hex4()
	for err == nil && utf16.IsSurrogate(r) {
		if !s.word(`\u`) {
			return utf8.AppendRune(out, utf8.RuneError), nil
		}
		var low rune
		if low, err = s.hex4(); err != nil {
			break
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return utf8.AppendRune(out, pair), nil
		}
		out, r = utf8.AppendRune(out, utf8.RuneError), low
	}
	return utf8.AppendRune(out, r), err
}

func (s *scanner) hex4() (rune, error) {
	if !s.has(4) {
		s.pos = len(s.buf)
		return 0, s.fail("four hexadecimal digits")
	}
	var r rune
	for _, c := range s.buf[s.pos : s.pos+4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, s.fail("four hexadecimal digits")
		}
	}
	s.pos += 4
	return r, nil
}
