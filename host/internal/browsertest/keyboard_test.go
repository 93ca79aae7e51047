package browsertest

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Every link, field and button is reached by Tab, in the order of the page, and is seen to have the focus.
func testKeyboard(t *testing.T, s *scene) {
	b := newTabByHand(t)
	for _, size := range []size{narrow, wide} {
		b.viewport(size)
		for _, path := range []string{overviewPath, pluginPath} {
			b.open(s, path)
			b.expectTabOrder(size.name + " " + path)
		}
	}
	b.useKeys(s)
	b.expectNoComplaints()
}

// describe describes an element by its place among those that may get the focus.
const describe = `(e) => [e.localName, e.innerText || e.name, [...document.querySelectorAll("a, button, input, select")].indexOf(e)].join(" ")`

func (b *tab) expectTabOrder(page string) {
	b.Helper()
	want := eval[[]string](b, `[...document.querySelectorAll("a, button, input, select")].map(`+describe+`)`)
	var got []string
	for range want {
		b.do(chromedp.KeyEvent(kb.Tab))
		got = append(got, eval[string](b, `(`+describe+`)(document.activeElement)`))
		if outline := eval[string](b, `(({outlineStyle, outlineWidth}) => outlineStyle + " " + outlineWidth)(getComputedStyle(document.activeElement))`); outline != "solid 2px" {
			b.Errorf("%s: %s has the focus, and the outline %s", page, got[len(got)-1], outline)
		}
		if at := eval[string](b, `(({top, bottom}) => top > -1 && bottom < innerHeight + 1 ? "" : top + " to " + bottom)(document.activeElement.getBoundingClientRect())`); at != "" {
			b.Errorf("%s: %s has the focus outside of the window, at %s", page, got[len(got)-1], at)
		}
	}
	if !slices.Equal(got, want) {
		b.Errorf("%s: Tab leads to\n%q, want\n%q", page, got, want)
	}
}

// useKeys goes to a plugin, has other objects shown, and stops the updates.
func (b *tab) useKeys(s *scene) {
	b.Helper()
	b.open(s, overviewPath)
	b.do(chromedp.KeyEvent(kb.Tab)) // Pause
	b.do(chromedp.KeyEvent(" "))
	if !eval[bool](b, `document.querySelector("#pause[aria-pressed=true]") === document.activeElement`) {
		b.Error("the space bar does not press the button")
	}
	for !eval[bool](b, `document.activeElement.getAttribute("href") === "ui/plugins/billing"`) {
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	b.follow(chromedp.KeyEvent(kb.Enter), pluginPath)
	for !eval[bool](b, `document.activeElement.name === "object"`) {
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	b.do(chromedp.KeyEvent("2026-1" + kb.Tab + "i" + kb.Tab + "n")) // types to the fields: the object, invoices, by name
	b.follow(chromedp.KeyEvent(kb.Tab+kb.Enter), pluginPath+"?object=2026-1&controller=invoices&order=name")
	if rows := b.texts("#objects tbody th"); len(rows) != 3 {
		b.Errorf("the form selects %q", rows)
	}
}
