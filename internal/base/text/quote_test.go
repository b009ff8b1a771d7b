package text_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// hostile are names that somebody may give a thing.
var hostile = []string{
	"", "mlx5_0", "a b", "$(reboot)", "`reboot`", "a;reboot", "a\nreboot", "'", "''", `\`, `"`, "-rf", "a'$(reboot)'b",
	"\x1b]0;owned\x07", "\x1b[2J",
	"a\tb", "a\rb", "\u202etxt.exe", "\u200b", "\u2028", "\x9b31m", "\u009b31m", "\xff\xfe", "\x00", "é ü 漢",
	"\U000e0001", "\x1b7", "#x", "~root", "*", "!!",
}

func TestTerminal(t *testing.T) {
	for in, want := range map[string]string{
		"mlx5_0": "mlx5_0", "é 漢": "é 漢", "a\nb\tc\r": `a\nb\tc\r`, "\x1b]0;x\x07": `\x1b]0;x\x07`,
		"\u202ex": `\u202ex`, "\xffx": `\xffx`,
		"\u009b": `\u009b`, "\U000e0001": `\U000e0001`, "\ufffd": "\ufffd",
	} {
		test.Eq(t, want, text.Terminal(in), test.Sprintf("%q", in))
	}
}

// harmless reports whether a terminal only shows a text.
func harmless(text, keep string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text,
		func(r rune) bool { return !unicode.IsGraphic(r) && !strings.ContainsRune(keep, r) })
}

// TestShell: bash takes each word for what it was, and a POSIX shell runs none of it.
func TestShell(t *testing.T) {
	for _, word := range hostile {
		quoted := text.Shell(word)
		test.True(t, harmless(quoted, ""), test.Sprintf("%q: %q acts on a terminal", word, quoted))
		if strings.Contains(word, "\x00") {
			continue // no word of any command
		}
		out, err := exec.Command("bash", "-c", "printf %s "+quoted).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q: bash reads %q, %v, of %s", word, out, err, quoted)
		}
		if out, err := exec.Command("sh", "-c", "reboot() { echo executed; }; : "+quoted).CombinedOutput(); err != nil ||
			len(out) > 0 {
			t.Errorf("%q: sh says %q, %v, of %s", word, out, err, quoted)
		}
	}
	test.Eq(t, "/etc/cdi/a.json 'a b'", text.Shells("/etc/cdi/a.json", "a b"), test.Sprint("two words"))
}

// TestWriter: however a text is cut, what is written is the same, and harmless.
func TestWriter(t *testing.T) {
	all := strings.Join(hostile, "\n\t")
	var whole, bytewise bytes.Buffer
	_, err := io.WriteString(text.Writer(&whole), all)
	w := text.Writer(&bytewise)
	_, err2 := io.Copy(w, iotest.OneByteReader(strings.NewReader(all)))
	if err := errors.Join(err, err2); err != nil || whole.String() != bytewise.String() {
		t.Errorf("%v: %q\nis not %q", err, bytewise.String(), whole.String())
	}
	if !harmless(whole.String(), "\n\t") || !strings.Contains(whole.String(), "é ü 漢\n\t") {
		t.Errorf("%q", whole.String())
	}
	if text.Unwrap(w) != &bytewise || text.Unwrap(&whole) != &whole {
		t.Error("the writer below is another")
	}
	if n, err := text.Writer(iotest.TruncateWriter(&whole, 0)).Write([]byte("x")); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// TestPrograms: what programs read has each name as it was.
func TestPrograms(t *testing.T) {
	for _, name := range hostile {
		if !utf8.ValidString(name) {
			continue // JSON has no bytes
		}
		in := map[string]string{"name": name}
		for format, write := range map[string]func(io.Writer, any) error{"JSON": text.JSON, "YAML": text.YAML} {
			var text bytes.Buffer
			must.NoError(t, write(&text, in))
			test.True(t, harmless(text.String(), "\n"), test.Sprintf("%q: %s is %q", name, format, text.String()))
			out, read := map[string]string{}, yaml.Unmarshal
			if format == "JSON" {
				if err := json.Unmarshal(text.Bytes(), &out); err != nil || out["name"] != name {
					t.Errorf("%q: read from %s as %q, %v", name, format, out["name"], err)
				}
				continue
			}
			if err := read(text.Bytes(), &out); err != nil || out["name"] != name {
				t.Errorf("%q: read from %s as %q, %v: %q", name, format, out["name"], err, text.String())
			}
		}
	}
}

func FuzzQuote(f *testing.F) {
	for _, name := range hostile {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		var out bytes.Buffer
		_, _ = io.WriteString(text.Writer(&out), name)
		for form, got := range map[string]string{"terminal": text.Terminal(name), "shell": text.Shell(name),
			"stream": strings.NewReplacer("\n", "", "\t", "").Replace(out.String())} {
			test.True(t, harmless(got, ""), test.Sprintf("%q: for %s it is %q", name, form, got))
		}
	})
}
