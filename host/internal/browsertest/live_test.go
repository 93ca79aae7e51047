package browsertest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// broken is what the host refuses, and shows at once.
var broken = []byte("\x00asm is how a module begins, and this is none")

// byHand makes scripts of pages wait for tick instead of the time, and counts their requests.
const byHand = `{
	const {fetch} = window;
	window.requests = 0;
	window.fetch = (...args) => { window.requests++; return fetch(...args) };
	window.setInterval = (f) => { window.tick = f };
}`

// impatient makes scripts of pages give up requests after half a second.
const impatient = `{
	const timeout = AbortSignal.timeout.bind(AbortSignal);
	AbortSignal.timeout = () => timeout(500);
}`

// newTabByHand opens a tab whose pages are updated by b.tick.
func newTabByHand(t *testing.T) *tab {
	t.Helper()
	b := newTab(t)
	b.inject(byHand)
	return b
}

// inject runs a script in every page before the page's own ones.
func (b *tab) inject(script string) {
	b.Helper()
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// tick is what the page does every five seconds.
func (b *tab) tick() {
	b.Helper()
	b.do(chromedp.Evaluate[chromedp.Void]("tick()", chromedp.EvalAwaitPromise))
}

// awaitAfterTicks is awaitTrue for what an update of the page leads to.
func (b *tab) awaitAfterTicks(expression string) {
	b.Helper()
	b.awaitTrue(`tick().then(() => ` + expression + `)`)
}

func TestPageFollowsTheHostWithoutAReload(t *testing.T) {
	t.Parallel()
	s, b := newScene(t), newTab(t)
	b.open(s, overviewPath)
	b.mark()
	s.write("indexer.wasm", broken)
	b.awaitTrue(`document.querySelector("#plugin-indexer .message") !== null`)
	s.must(os.Remove(filepath.Join(s.plugins, "indexer.wasm")))
	b.awaitTrue(`document.querySelector("#plugin-indexer") === null && document.querySelector("#loads").innerText.includes("removed")`)
	b.expectMark()
	b.expectNoComplaints()
}

// mark leaves something in the page that does not survive a reload.
func (b *tab) mark() { b.do(chromedp.Evaluate[chromedp.Void]("window.marked = true")) }

func (b *tab) expectMark() {
	b.Helper()
	if !eval[bool](b, "window.marked === true") {
		b.Error("the page was loaded again")
	}
}

// The reader is at a link in the middle, and rows come and go above it.
func TestUpdatesKeepFocusAndScrolling(t *testing.T) {
	t.Parallel()
	s, b := newScene(t), newTabByHand(t)
	for _, name := range []string{"b", "c", "d", "e", "f"} {
		s.write(name+".wasm", broken)
	}
	b.viewport(narrow)
	b.open(s, overviewPath)
	b.awaitAfterTicks(`document.querySelectorAll("#plugins .state.bad").length === 5`)
	b.mark()
	b.do(chromedp.Evaluate[chromedp.Void](`
		window.link = document.querySelector("#plugin-e a"); link.focus(); link.scrollIntoView({block: "center"});
		window.top0 = link.getBoundingClientRect().top; window.scroll0 = scrollY`))
	expectPlace := func(when string) {
		t.Helper()
		if !eval[bool](b, `document.activeElement === link && link.isConnected && link.closest("tr").id === "plugin-e"`) {
			t.Errorf("%s: the focus is at %s", when, eval[string](b, "document.activeElement.outerHTML.slice(0, 200)"))
		}
		if moved := eval[float64](b, `Math.abs(link.getBoundingClientRect().top - top0)`); moved > 1 || eval[float64](b, "scroll0") < 100 {
			t.Errorf("%s: the link has moved by %g px", when, moved)
		}
	}
	s.write("a.wasm", broken)
	b.awaitAfterTicks(`document.querySelector("#plugin-a .state.bad") !== null`)
	expectPlace("a row has come")
	s.must(os.Remove(filepath.Join(s.plugins, "b.wasm")))
	b.awaitAfterTicks(`document.getElementById("plugin-b") === null`)
	expectPlace("a row has gone")
	b.expectMark()
	b.expectNoComplaints()
}

func TestSelectedTextIsNotReplaced(t *testing.T) {
	t.Parallel()
	s, b := newScene(t), newTabByHand(t)
	b.open(s, overviewPath)
	b.do(chromedp.Evaluate[chromedp.Void](`
		window.now = document.getElementById("now"); getSelection().selectAllChildren(now); window.selected = String(getSelection());
		window.before = document.getElementById("plugins").innerText`))
	const kept = `String(getSelection()) === selected && now.innerText === selected`
	s.write("a.wasm", broken)
	b.awaitAfterTicks(`document.getElementById("plugins").innerText !== before`)
	if !eval[bool](b, kept) {
		t.Errorf("selected is %q, and was %q", eval[string](b, "String(getSelection())"), eval[string](b, "selected"))
	}
	b.do(chromedp.Evaluate[chromedp.Void](`getSelection().empty()`))
	b.awaitAfterTicks(`now.innerText !== selected`)
	b.expectNoComplaints()
}

func TestPauseStopsUpdates(t *testing.T) {
	t.Parallel()
	s, b := newScene(t), newTabByHand(t)
	b.open(s, overviewPath)
	b.do(chromedp.Click(chromedp.CSS("#pause")))
	b.tick()
	if n := eval[int](b, "requests"); n != 0 || !eval[bool](b, `document.getElementById("pause").matches("[aria-pressed=true]")`) {
		t.Errorf("%d requests while it is paused", n)
	}
	b.do(chromedp.Click(chromedp.CSS("#pause")))
	if n := eval[int](b, "requests"); n != 1 || !eval[bool](b, `document.getElementById("pause").matches("[aria-pressed=false]")`) {
		t.Errorf("%d requests at the end of the pause", n)
	}
	b.awaitAfterTicks(`requests > 1`)
	b.expectNoComplaints()
}

func TestPageTellsThatTheHostIsAwayAndRecovers(t *testing.T) {
	t.Parallel()
	s, b := newScene(t), newTabByHand(t)
	b.inject(impatient)
	b.open(s, overviewPath)
	b.mark()
	const away = `document.getElementById("problem").innerText === "Not updated: the host does not respond"`
	stopped := s.Process
	t.Cleanup(func() { stopped.Signal(syscall.SIGCONT) }) // it could not exit
	s.Signal(syscall.SIGSTOP)
	b.awaitAfterTicks(away)
	s.Signal(syscall.SIGCONT)
	b.awaitAfterTicks(`document.getElementById("problem").innerText === ""`)

	address := s.Address()
	s.must(s.Stop())
	b.awaitAfterTicks(away)
	s.write("after.wasm", broken)
	s.start(address)
	b.awaitAfterTicks(`document.getElementById("problem").innerText === "" && document.getElementById("plugin-after") !== null`)
	b.expectMark()
}

// The page of a plugin that is removed does not show old numbers as if they were new.
func TestPageOfAPluginTellsThatItIsGone(t *testing.T) {
	t.Parallel()
	s, b := newScene(t), newTabByHand(t)
	s.write("a.wasm", broken)
	b.open(s, overviewPath)
	b.awaitAfterTicks(`document.getElementById("plugin-a") !== null`)
	b.follow(chromedp.Evaluate[chromedp.Void](`document.querySelector("#plugin-a a").click()`), "/ui/plugins/a")
	s.must(os.Remove(filepath.Join(s.plugins, "a.wasm")))
	// The page is loaded again, so nothing waits for the end of a tick.
	b.awaitTrue(`window.tick?.(), document.getElementById("total")?.innerText === "There is no plugin of this name now." && document.getElementById("controllers") === null`)
	s.write("a.wasm", broken)
	b.awaitTrue(`window.tick?.(), document.getElementById("controllers") !== null`)
}

func TestMarkupOfAPluginIsText(t *testing.T) {
	t.Parallel()
	s, b := newScene(t), newTab(t)
	s.install(shipping)
	b.open(s, overviewPath)
	b.awaitTrue(`document.querySelector("#plugin-shipping .running") !== null`)
	for _, path := range []string{overviewPath, "/ui/plugins/shipping"} {
		b.open(s, path)
		if !eval[bool](b, `document.querySelector("main").innerText.includes("<img src=x onerror=") && document.images.length === 0 && window.ran === undefined`) {
			t.Errorf("%s: %s", path, eval[string](b, `document.querySelector("main").innerHTML`))
		}
	}
	b.expectNoComplaints()
}
