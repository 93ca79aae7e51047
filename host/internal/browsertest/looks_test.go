package browsertest

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

//go:embed testdata/audit.js
var audit string

// Nothing is cut off or too faint to read, in any size and scheme, and the browser finds nothing wrong.
func testLooks(t *testing.T, s *scene) {
	b := newTab(t)
	for page, path := range map[string]string{"overview": overviewPath, "plugin": pluginPath} {
		for _, size := range []size{narrow, wide} {
			for _, scheme := range []string{"light", "dark"} {
				name := page + "-" + size.name + "-" + scheme
				b.viewport(size)
				b.scheme(scheme)
				b.open(s, path)
				for _, problem := range eval[[]string](b, audit) {
					t.Errorf("%s: %s", name, problem)
				}
				b.screenshot(name + ".png")
			}
		}
	}
	b.expectNoComplaints()
}

// screenshot leaves a picture of the whole page for people, if they ask for it.
func (b *tab) screenshot(name string) {
	b.Helper()
	dir := os.Getenv("THOLE_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.context(), chromedp.FullScreenshot(100))
	b.must(err)
	b.must(os.MkdirAll(dir, 0o755))
	b.must(os.WriteFile(filepath.Join(dir, name), picture, 0o644))
}

// Names as long as they may be, and windows of any width, do not break the page.
func TestLongNamesFit(t *testing.T) {
	t.Parallel()
	s, b := newScene(t), newTab(t)
	s.write(strings.Repeat("p", 63)+".wasm", broken)
	s.create("v1", "ConfigMap", strings.Repeat("c", 253), nil)
	s.install(shipping) // its version is long as well
	b.open(s, overviewPath)
	b.awaitTrue(`document.querySelectorAll("#slowest tbody tr").length === 2 && document.querySelector("#plugins .bad") !== null`)
	for _, path := range []string{overviewPath, "/ui/plugins/shipping"} {
		b.open(s, path)
		for _, width := range []int64{320, narrow.width, 768, 1087, 1088, wide.width, 1920} {
			b.viewport(size{width: width, height: 800})
			for _, problem := range eval[[]string](b, audit) {
				t.Errorf("%s at %d px: %s", path, width, problem)
			}
			b.screenshot(fmt.Sprintf("long-%s-%d.png", filepath.Base(path), width))
		}
	}
	b.expectNoComplaints()
}

// What testLooks finds right means something if the audit finds what is wrong.
func testAudit(t *testing.T, s *scene) {
	b := newTab(t)
	b.viewport(narrow)
	for name, c := range map[string]struct{ damage, want string }{
		"no style":       {`document.querySelector("style").remove()`, "there is no style"},
		"no script":      {`document.getElementById("pause").hidden = true`, "the script has not run"},
		"no data":        {`document.querySelector("main").remove()`, "texts only"},
		"too wide":       {`document.querySelector("h1").style.width = "400px"`, "the page is 416 px wide, the window 390"},
		"too faint":      {`document.querySelector("h1").style.color = "#888"`, `<h1 class=""> "Plugin billing": its text has a contrast of 3.54`},
		"faint hint":     {`document.querySelector("input").style.backgroundColor = "#888"`, "::placeholder has a contrast of"},
		"translucent":    {`document.querySelector("main").style.backgroundColor = "#8888"`, "translucent"},
		"out of its box": {`document.querySelector("dt").style.width = "9px"`, "its text leaves its box"},
		"cut off":        {`Object.assign(document.querySelector("h1").style, {width: "50px", overflow: "hidden", whiteSpace: "nowrap"})`, "it is cut off on the right"},
		"too low":        {`Object.assign(document.querySelector("h1").style, {height: "9px", overflow: "hidden"})`, "it is cut off at the bottom"},
		"ellipsis":       {`document.querySelector("h1").style.textOverflow = "ellipsis"`, "its text may be cut off"},
		"too small":      {`Object.assign(document.querySelector("nav a").style, {display: "inline-block", padding: 0, lineHeight: 1})`, "too small for a finger"},
	} {
		b.open(s, pluginPath)
		problems := eval[[]string](b, c.damage+";"+audit)
		if !strings.Contains(strings.Join(problems, "\n"), c.want) {
			t.Errorf("%s: the audit finds %q, want %q", name, problems, c.want)
		}
	}
}
