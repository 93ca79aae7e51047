package browsertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/thole-dev/thole/host/internal/await"
)

// tab is a tab of the browser, with a profile of its own.
type tab struct {
	*testing.T
	context func() context.Context

	mu         sync.Mutex
	complaints []string // of the browser, about the page
}

// newTab opens a tab, which is closed when the test ends.
func newTab(t *testing.T) *tab {
	t.Helper()
	b := &tab{T: t}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.listen))
	t.Cleanup(cancel)
	b.context = func() context.Context { return ctx }
	b.must(chromedp.Do(ctx)) // creates it; its context must not be one that ends before
	call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	b.viewport(wide)
	return b
}

// listen collects what the console of the browser shows as a warning or an error, and violations of the
// Content Security Policy are among it.
func (b *tab) listen(event any) {
	var text string
	switch e := event.(type) {
	case *log.EventEntryAdded:
		text = fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += ": " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		text = fmt.Sprintf("console.%s: %v", e.Type, e.Args)
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, text)
}

// expectNoComplaints expects that the browser has not complained about the page.
func (b *tab) expectNoComplaints() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		b.Errorf("the browser complains:\n%s", strings.Join(b.complaints, "\n"))
	}
}

func (b *tab) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// do performs actions in the page.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.context(), await.Limit)
	defer cancel()
	b.must(chromedp.Do(ctx, steps...))
}

// call sends a command of the DevTools protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.context(), await.Limit)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	b.must(err)
	return result
}

// eval returns the value of an expression in the page, or of the promise that it is: in the next page, if this
// one is left meanwhile.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.context(), await.Limit)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	for err != nil && strings.Contains(err.Error(), "Inspected target navigated or closed") {
		value, err = chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	}
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return value
}

// awaitTrue waits until an expression in the page is true.
func (b *tab) awaitTrue(expression string) {
	b.Helper()
	await.Until(b.T, expression, func() bool { return eval[bool](b, expression) })
}

// size is that of a viewport, in CSS pixels.
type size struct {
	name          string
	width, height int64
}

// The sizes that the page is made for: a phone, and a window beside others.
var (
	narrow = size{"390", 390, 844}
	wide   = size{"1280", 1280, 800}
)

func (b *tab) viewport(s size) {
	b.Helper()
	b.do(chromedp.EmulateViewport(s.width, s.height))
}

// scheme makes the page light or dark.
func (b *tab) scheme(name string) {
	b.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

// open opens a page of the host.
func (b *tab) open(s *scene, path string) {
	b.Helper()
	b.do(chromedp.Navigate("http://" + s.Address() + path))
}

// texts returns the text of the elements that a selector selects, as it is shown, on one line each.
func (b *tab) texts(selector string) (texts []string) {
	b.Helper()
	for _, text := range eval[[]string](b, fmt.Sprintf(`[...document.querySelectorAll(%q)].map((e) => e.innerText)`, selector)) {
		texts = append(texts, strings.Join(strings.Fields(text), " "))
	}
	return texts
}
