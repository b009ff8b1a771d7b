// Package text writes texts for people, terminals, shells and programs: numbers with nouns, lists and tables. It makes
// untrusted text safe for them. Names come from the kernel, from files, from pods and from the API server, and may
// contain any text.
package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// Terminal escapes what a terminal would act on or not show: control characters, line breaks, characters that change
// the direction of text or are invisible, and invalid UTF-8. It writes Go escapes: \n, \x1b, \u202e.
func Terminal(text string) string {
	return escaped(text, "")
}

// Cells does the same as Terminal with each cell of a table.
func Cells(cells ...string) []string {
	out := make([]string, len(cells))
	for i, cell := range cells {
		out[i] = Terminal(cell)
	}
	return out
}

// Clean reports whether a terminal would show a text unchanged. Line breaks are allowed.
func Clean(text string) bool { return clean(text, "\n") }

// clean reports whether a text has no character to escape. It allows the characters of keep.
func clean(text, keep string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text,
		func(r rune) bool { return !shown(r) && !strings.ContainsRune(keep, r) })
}

// shown reports whether a terminal shows a character as one that a reader sees. Some graphic characters, such as Hangul
// fillers and variation selectors, are invisible.
func shown(r rune) bool {
	return unicode.IsGraphic(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// escaped escapes all characters of a text that clean finds.
func escaped(text, keep string) string {
	if clean(text, keep) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if strings.ContainsRune(keep, r) {
			b.WriteRune(r)
		} else {
			escape(&b, r, text[i:i+size])
		}
		i += size
	}
	return b.String()
}

func escape(b *strings.Builder, r rune, raw string) {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		fmt.Fprintf(b, `\x%02x`, raw[0])
	case shown(r):
		b.WriteRune(r)
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\t':
		b.WriteString(`\t`)
	case r == '\r':
		b.WriteString(`\r`)
	case r < utf8.RuneSelf:
		fmt.Fprintf(b, `\x%02x`, r)
	case r < 1<<16:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

// Shell returns a text as one word of a shell command. It adds no quotes to a safe word. It writes a character that a
// terminal would act on as an escape, $'\033', which bash, zsh, ksh and busybox read. Another shell reads other text,
// but never a command.
func Shell(word string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("_@%+=:,./-", r)
	}
	switch {
	case word != "" && strings.TrimFunc(word, plain) == "":
		return word
	case clean(word, ""):
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for _, c := range []byte(word) {
		switch {
		case c == '\'' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c >= 0x7f: // octal: three digits end it, while \x1b would take a digit that follows
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteString("'")
	return b.String()
}

// Shells returns several words of a shell command, separated by spaces.
func Shells(words ...string) string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = Shell(word)
	}
	return strings.Join(out, " ")
}

// JSON writes a value as indented JSON. It writes JSON escapes for characters that a terminal would act on.
func JSON(w io.Writer, v any) error {
	text, err := encode(v, surrogates)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// YAML writes a value as YAML. If the result would contain a character that a terminal acts on, it uses the JSON style
// of YAML, with escapes.
func YAML(w io.Writer, v any) error {
	flow, err := encode(v, eightDigits)
	if err != nil {
		return err
	}
	text, err := yaml.JSONToYAML([]byte(flow))
	if err != nil {
		return err
	}
	if !clean(string(text), "\n") {
		text = []byte(flow)
	}
	_, err = w.Write(text)
	return err
}

// encode encodes a value as JSON. wide returns the escape of a language for a character beyond 16 bits. encode needs no
// parser, because only strings of JSON contain characters beyond ASCII.
func encode(v any, wide func(rune) string) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // commands have > and &
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	text := buf.String()
	if clean(text, "\n") {
		return text, nil
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || shown(r):
			b.WriteRune(r)
		case r < 1<<16:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(wide(r))
		}
	}
	return b.String(), nil
}

func surrogates(r rune) string {
	high, low := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, high, low)
}

func eightDigits(r rune) string { return fmt.Sprintf(`\U%08x`, r) }
