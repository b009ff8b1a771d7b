package statuspage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// browser is a Chromium without JavaScript, and with a profile of its own.
type browser struct{ program, profile string }

// newBrowser looks for a Chromium.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	needs.Proof(t, "it runs a browser")
	for _, name := range []string{"chromium", "google-chrome", "google-chrome-stable"} {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		b := &browser{program, t.TempDir()}
		settings := filepath.Join(b.profile, "Default", "Preferences")
		must.NoError(t, os.MkdirAll(filepath.Dir(settings), 0o700))
		// Not --blink-settings=scriptEnabled=false: --dump-dom is made of scripts itself.
		err = os.WriteFile(settings,
			[]byte(`{"profile":{"default_content_setting_values":{"javascript":2}}}`), 0o600)
		must.NoError(t, err)
		return b
	}
	needs.Missing(t, errors.New("no browser: install the package chromium (hack/install-packages.sh), or Google Chrome"))
	return nil
}

// The values of Blink's setting preferredColorScheme.
const (
	dark  = 0
	light = 1
)

// load loads a page, and returns its document, a picture of it, and what the browser said.
func (b *browser) load(t *testing.T, url string, scheme int) (document string, picture image.Image, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	shot := filepath.Join(t.TempDir(), "page.png")
	cmd := exec.CommandContext(ctx, b.program, "--headless", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--hide-scrollbars",
		"--window-size=1400,1800", "--user-data-dir="+b.profile, "--enable-logging=stderr",
		fmt.Sprintf("--blink-settings=preferredColorScheme=%d", scheme), "--screenshot="+shot, "--dump-dom", url)
	cmd.Env = append(os.Environ(), "HOME="+b.profile)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 10 * time.Second // its children may keep the pipes
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, &stderr)
	}
	f, err := os.Open(shot)
	must.NoError(t, err, must.Sprintf("no picture of the page: %v\n%s", err, &stderr))
	defer f.Close()
	picture, err = png.Decode(f)
	must.NoError(t, err)
	return stdout.String(), picture, stderr.String()
}

// colours counts the pixels of each colour.
func colours(picture image.Image) map[color.RGBA]int {
	out := map[color.RGBA]int{}
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			out[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++
		}
	}
	return out
}

// TestBrowser: a browser without JavaScript shows the page, on a light and on a dark screen,
// with both style sheets, and finds nothing that it must refuse.
func TestBrowser(t *testing.T) {
	b := newBrowser(t)
	server := serve(t, busy(t))
	for scheme, background := range map[int]color.RGBA{
		light: {0xff, 0xff, 0xff, 0xff},
		dark:  {0x0f, 0x13, 0x18, 0xff},
	} {
		document, picture, log := b.load(t, server.URL, scheme)
		for _, want := range []string{"RDMA devices of node-1", "trainer-0", "no cable, or the other end is off",
			"NotPrepared", "NUMA node 1", "get resourceclaims"} {
			test.StrContains(t, document, want, test.Sprint("the document lacks"))
		}
		test.True(t, !strings.Contains(log, "CONSOLE") && !strings.Contains(log, "Content Security Policy"),
			test.Sprintf("the browser has something to say:\n%s", log))
		// 8 GPUs and 9 HCAs of the picture are thousands of pixels each.
		found := colours(picture)
		for what, c := range map[string]color.RGBA{"background": background, "GPUs": {0x2a, 0x7d, 0x3c, 0xff},
			"HCAs": {0x1c, 0x66, 0xd1, 0xff}} {
			test.GreaterEq(t, 20_000, found[c],
				test.Sprintf("scheme %d: %d pixels have the colour of the %s", scheme, found[c], what))
		}
		test.GreaterEq(t, 100, len(found),
			test.Sprintf("scheme %d: %d colours: there is no text", scheme, len(found)))
	}
}

// TestBrowserWithoutJavaScript: the browser of TestBrowser runs no script indeed.
func TestBrowserWithoutJavaScript(t *testing.T) {
	b := newBrowser(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!DOCTYPE html><p id="p">still</p><script>document.getElementById("p").textContent = "moved"</script>`)
	}))
	t.Cleanup(server.Close)
	document, _, _ := b.load(t, server.URL, light)
	test.StrContains(t, document, ">still<", test.Sprint("a script ran"))
}
