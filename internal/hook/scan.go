package hook

import (
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the nesting at which encoding/json gives up, too.
const maxDepth = 10000

// scanner walks over one JSON text (RFC 8259). It accepts what encoding/json
// accepts, which is fuzzed, and keeps nothing but its position.
type scanner struct {
	data []byte
	pos  int
}

// fail reports what was expected at the current position.
func (s *scanner) fail(expected string) error {
	if s.pos >= len(s.data) {
		return errors.New("the text ends where " + expected + " is expected")
	}
	return errors.New("expected " + expected + " at byte " + strconv.Itoa(s.pos) +
		", found " + strconv.QuoteRune(rune(s.data[s.pos])))
}

// peek is the next byte, or 0 at the end; 0 is never valid outside a string.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
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
		key, err := s.str()
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
		_, err := s.str()
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
	if len(s.data)-s.pos < len(w) || string(s.data[s.pos:s.pos+len(w)]) != w {
		return false
	}
	s.pos += len(w)
	return true
}

// digits consumes digits and says whether there was at least one.
func (s *scanner) digits() bool {
	start := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	return s.pos > start
}

// number consumes a number and returns it as it is written.
func (s *scanner) number() (string, error) {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return "", s.fail("a digit")
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return "", s.fail("a digit")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return "", s.fail("a digit")
		}
	}
	return string(s.data[start:s.pos]), nil
}

// str consumes a string and decodes it. Like encoding/json it puts U+FFFD for
// bytes that are not UTF-8 and for lone surrogates.
func (s *scanner) str() (string, error) {
	if s.peek() != '"' {
		return "", s.fail("a string")
	}
	s.pos++
	var out []byte
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return string(out), nil
		case c < ' ':
			return "", s.fail("no control character in a string")
		case c == '\\':
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		case c < utf8.RuneSelf:
			out = append(out, c)
			s.pos++
		default:
			r, size := utf8.DecodeRune(s.data[s.pos:])
			out = utf8.AppendRune(out, r)
			s.pos += size
		}
	}
	return "", s.fail(`'"'`)
}

// escape consumes a backslash and what it introduces.
func (s *scanner) escape() (rune, error) {
	s.pos++
	c := s.peek()
	s.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return s.escapedRune()
	}
	s.pos--
	return 0, s.fail("an escape character")
}

// escapedRune consumes the hexadecimal digits after \u, and a second such
// escape where the two are a surrogate pair.
func (s *scanner) escapedRune() (rune, error) {
	r, err := s.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	after := s.pos
	if s.word(`\u`) {
		low, err := s.hex4()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	s.pos = after
	return utf8.RuneError, nil
}

func (s *scanner) hex4() (rune, error) {
	if len(s.data)-s.pos < 4 {
		s.pos = len(s.data)
		return 0, s.fail("four hexadecimal digits")
	}
	var r rune
	for _, c := range s.data[s.pos : s.pos+4] {
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
