package browsertest

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/thole-dev/thole/host/internal/await"
)

// Without scripts the pages have everything, load themselves again, and links and the form work.
func testWithoutScripts(t *testing.T, s *scene) {
	b := newTab(t)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open(s, overviewPath)
	if eval[bool](b, `document.getElementById("pause").checkVisibility()`) {
		t.Error("there is a button that does nothing")
	}
	for selector, want := range map[string]int{"#plugins tbody tr": 5, "#failing tbody tr": 5, "#slowest tbody tr": 10, "#loads tbody tr": 5} {
		if rows := b.texts(selector); len(rows) < want {
			t.Errorf("%s: %q, want %d", selector, rows, want)
		}
	}
	const loaded = "performance.timeOrigin"
	first := eval[float64](b, loaded)
	await.Until(t, "the page loads itself again", func() bool { return eval[float64](b, loaded) > first })

	b.follow(chromedp.Click(chromedp.CSS("#plugin-billing a")), pluginPath)
	b.follow(chromedp.SendKeys(chromedp.CSS("input[name=object]"), "2026-11"+kb.Enter), pluginPath+"?object=2026-11&controller=&order=failing")
	if rows := b.texts("#objects tbody tr"); len(rows) != 1 || !strings.Contains(rows[0], "2026-11 retry Failed, 3 times") {
		t.Errorf("the form selects %q", rows)
	}
	b.follow(chromedp.Click(chromedp.CSS("nav a")), overviewPath)
	b.expectNoComplaints()
}

// follow performs a step that leads to another page, with that path and query.
func (b *tab) follow(step chromedp.Action[chromedp.Void], path string) {
	b.Helper()
	b.do(step)
	await.Until(b.T, path+" is there", func() bool {
		return eval[string](b, `document.readyState + location.pathname + location.search`) == "complete"+path // of one page
	})
}
