package page

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/thole-dev/thole/host/runner"
)

// This file has the HTML of the pages. Text and the values of attributes are escaped; only page.css and page.js are not.

// live marks an element that page.js replaces.
var live = g.Attr("data-live")

func (f *frame) document(content ...g.Node) g.Node {
	return g.Group{g.Raw("<!DOCTYPE html>\n"), h.HTML(h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.TitleEl(g.Text(f.Title+" · Thole")),
			h.NoScript(h.Meta(g.Attr("http-equiv", "refresh"), h.Content(either(f.Home == "", "10", "30")))),
			h.StyleEl(g.Raw(style)),
		),
		h.Body(
			h.Header(
				h.P(h.Class("product"), linkIf(f.Home, g.Text("Thole")), g.Text(" "), faint(joined(" · ", f.Version, f.Replica))),
				h.P(h.Class("faint"),
					h.Span(h.ID("now"), live, g.Textf("As of %s UTC, up %s", f.At.UTC().Format(time.TimeOnly), age(f.At, f.Started))),
					g.Text(" "), h.Span(h.ID("problem"), h.Class("bad"), h.Role("status"))),
				h.Button(h.ID("pause"), h.Type("button"), g.Attr("hidden"), h.Aria("pressed", "false"), g.Text("Pause")),
			),
			h.Main(content...),
			h.Script(g.Raw(script)),
		),
	)}
}

func (o *overview) html() g.Node {
	return o.document(
		h.H1(g.Text("Status")),
		h.Dl(h.ID("total"), h.Class("numbers"), live,
			fact(one(len(o.Plugins), "plugin", "plugins"), g.Textf("%d", len(o.Plugins))), o.Total.html()),
		section("plugins", "Plugins", o.plugins()),
		section("failing", "Objects that fail or wait", o.failing()),
		section("slowest", "Slowest objects", orNone(o.Slowest, "Nothing has run yet.", func() g.Node {
			return o.objects("slowest", o.Slowest)
		})),
		o.loads(),
	)
}

func (o *overview) plugins() g.Node {
	return orNone(o.Plugins, "There are no plugins: put NAME.wasm into the directory of the host.", func() g.Node {
		return table("plugins", []string{
			"Plugin", "State", "#Failing", "#Queued", "#Running", "#Runs/s", "#Errors/s", "#Revision", "Version",
		}, g.Map(o.Plugins, func(p pluginView) g.Node {
			return h.Tr(h.ID("plugin-"+p.Name), rowHeader(h.A(h.Href(linkTo(p.Name)), g.Text(p.Name))),
				h.Td(h.Class("line"), p.state(), g.If(p.Leader != "", faint(" led by "+p.Leader)), message(p.Problem())),
				failing(p.Total.Failing).html(), number("Queued", p.Total.Queued).html(), number("Running", p.Total.Active).html(),
				p.Total.rates(), revision(p.Revision), labelled("Version", g.Text(p.Version)))
		}))
	})
}

func (o *overview) failing() g.Node {
	return orNone(o.Failing, "None.", func() g.Node {
		note := "The messages are in the conditions of the objects and in the log of the host."
		if o.MoreFailing > 0 {
			note = fmt.Sprintf("The pages of the plugins have %d more. ", o.MoreFailing) + note
		}
		return g.Group{o.objects("failing", o.Failing), h.P(h.Class("faint"), g.Text(note))}
	})
}

func (d *pluginPage) html() g.Node {
	content := g.Group{h.Nav(h.Aria("label", "Breadcrumb"), h.A(h.Href(d.Home), g.Text("All plugins"))), h.H1(g.Text(d.Title))}
	if v := d.View; v == nil {
		content = append(content, h.P(h.ID("total"), live, g.Text("There is no plugin of this name now.")))
	} else {
		content = append(content,
			h.Div(h.ID("details"), live, v.facts(d.At), g.If(v.Problem() != "", h.P(h.Class("problem"), g.Text(v.Problem())))),
			h.Dl(h.ID("total"), h.Class("numbers"), live, v.Total.html()),
			section("controllers", "Controllers", v.controllers()),
			sectionOf("objects", "Objects", d.form(), d.shown()))
	}
	return d.document(append(content, d.loads())...)
}

func (v *pluginView) facts(now time.Time) g.Node {
	facts := g.Group{
		fact("State", v.state(), g.Text(" for "+age(now, v.Since))),
		fact("Revision", g.Text(revisionOr(v.Revision, "none"))),
	}
	optional := func(name, value string) {
		if value != "" {
			facts = append(facts, fact(name, g.Text(value)))
		}
	}
	optional("Version", v.Version)
	optional("Loads", fmt.Sprintf("%d, %d rolled back", v.Loads, v.Rollbacks))
	optional("Leader", v.Leader)
	if b := v.Breaker; b != nil {
		optional("Circuit breaker", joined(": ", string(b.State), b.Reason))
	}
	if v.Digest != "" {
		facts = append(facts, fact("Digest", h.Code(g.Text(v.Digest))))
	}
	return h.Dl(h.Class("facts"), facts)
}

func (v *pluginView) controllers() g.Node {
	return orNone(v.Controllers, "None is running.", func() g.Node {
		return table("controllers", []string{
			"Controller", "#Failing", "#Objects", "#Queued", "#Running", "#Runs", "#Errors", "#Runs/s", "#Errors/s", "#Mean time",
		}, g.Map(v.Controllers, func(c controllerView) g.Node {
			t := c.Total
			return h.Tr(h.ID("controller-"+c.Name), rowHeader(g.Text(c.Name)),
				failing(t.Failing).html(), number("Objects", t.Objects).html(), number("Queued", t.Queued).html(),
				cell{Label: "Running", Text: fmt.Sprintf("%d of %d", t.Active, t.Workers)}.html(),
				number("Runs", fmt.Sprintf("%.0f", t.Runs)).html(), number("Errors", fmt.Sprintf("%.0f", t.Errors)).html(),
				t.rates(), number("Mean time", took(t.Mean())).html())
		}))
	})
}

// form is the form that selects and orders objects.
func (d *pluginPage) form() g.Node {
	option := func(name string, selected bool) g.Node { return h.Option(g.If(selected, h.Selected()), g.Text(name)) }
	return h.Form(h.Method("get"),
		h.Label(g.Text("Object "), h.Input(h.Name("object"), h.Type("search"), h.Value(d.Object),
			h.Placeholder("namespace/name"), h.AutoComplete("off"))),
		g.If(len(d.View.Controllers) > 1, h.Label(g.Text(" Controller "), h.Select(h.Name("controller"),
			h.Option(h.Value(""), g.Text("all")),
			g.Map(d.View.Controllers, func(c controllerView) g.Node { return option(c.Name, c.Name == d.Only) })))),
		h.Label(g.Text(" First "), h.Select(h.Name("order"),
			g.Map(d.Orders, func(order string) g.Node { return option(order, order == d.Order) }))),
		g.Text(" "), h.Button(g.Text("Show")))
}

func (d *pluginPage) shown() g.Node {
	none := "None."
	if d.Object != "" || d.Only != "" {
		none = "None that the form selects."
	}
	return h.Div(h.ID("objects"), live, orNone(d.Shown, none, func() g.Node {
		return g.Group{d.objects("objects", d.Shown), h.Nav(h.Class("pages"), h.Aria("label", "Pages"),
			g.If(d.Earlier != "", g.Group{h.A(h.Href(d.Earlier), h.Rel("prev"), g.Text("Previous")), g.Text(" ")}),
			g.Textf("%d to %d of %d", d.From, d.To, d.Found),
			g.If(d.Later != "", g.Group{g.Text(" "), h.A(h.Href(d.Later), h.Rel("next"), g.Text("Next"))}))}
	}))
}

// objects is a table of objects in the section of an id.
func (f *frame) objects(id string, objects []*objectView) g.Node {
	overview := f.Home == ""
	columns := []string{"Object", "Failure", "Plugin", "Controller", "Why it ran", "#Took", "#Last run"}
	if !overview {
		columns = append(columns[:2:2], columns[3:]...)
	}
	return table(either(overview, "objects", "objects of-one"), columns, g.Map(objects, func(o *objectView) g.Node {
		name := o.Object.String()
		return h.Tr(h.ID(strings.Join([]string{id, o.Plugin, o.Controller, name}, "-")+either(o.Gone, "-gone", "")),
			rowHeader(g.Text(name), g.If(o.Gone, faint(" gone"))),
			h.Td(h.Class("line"), o.failure()),
			g.If(overview, labelled("Plugin", h.A(h.Href(linkTo(o.Plugin)), g.Text(o.Plugin)))),
			labelled("Controller", g.Text(o.Controller)), labelled("Why", g.Textf("%v", o.Reasons)),
			cell{Label: "Took", Text: took(o.Duration)}.html(), f.ago(o.Ended))
	}))
}

func (o *objectView) failure() g.Node {
	f := o.Failure
	if f == nil {
		return nil
	}
	return g.Group{
		h.Span(g.If(o.Fails(), h.Class("bad")), g.Text(string(f.Class))),
		g.If(f.Reason != "", g.Text(" "+f.Reason)), times(f.Attempt),
	}
}

func (f *frame) loads() g.Node {
	return section("loads", "Loads", orNone(f.Loads, "Nothing yet.", func() g.Node {
		columns := []string{"Plugin", "What happened", "#Revision", "Version", "Digest", "#When"}
		return table("loads", columns, g.Map(f.Loads, func(l Load) g.Node {
			return h.Tr(h.ID(fmt.Sprintf("load-%s-%d", l.Plugin, l.At.UnixMilli())),
				rowHeader(linkIf(either(f.Home == "", linkTo(l.Plugin), ""), g.Text(l.Plugin))),
				h.Td(h.Class("line"), h.Span(g.If(l.Bad, h.Class("bad")), g.Text(l.What)), times(l.Times), message(l.Detail)),
				revision(l.Revision), labelled("Version", g.Text(l.Version)),
				labelled("Digest", h.Code(g.Text(runner.ShortDigest(l.Digest)))), f.ago(l.At))
		}))
	}))
}

// ago is the cell of a time.
func (f *frame) ago(at time.Time) g.Node {
	return h.Td(h.Class("number when"), h.Time(h.DateTime(at.UTC().Format(time.RFC3339)), g.Text(age(f.At, at)+" ago")))
}

func (t totals) html() g.Node {
	return g.Group{
		h.Div(g.If(t.Failing > 0, h.Class("bad")), h.Dt(g.Text("failing")), h.Dd(g.Textf("%d", t.Failing))),
		fact("waiting", g.Textf("%d", t.Waiting)), fact("objects", g.Textf("%d", t.Objects)),
		fact("queued", g.Textf("%v", t.Queued)), fact("running", g.Textf("%v ", t.Active), faint(fmt.Sprintf("of %v", t.Workers))),
		fact("runs/s", g.Text(rate(t.Rated, t.Rate.Runs))), fact("errors/s", g.Text(rate(t.Rated, t.Rate.Errors))),
	}
}

// rates are the cells of the rates.
func (t totals) rates() g.Node {
	return g.Group{number("Runs/s", rate(t.Rated, t.Rate.Runs)).html(), number("Errors/s", rate(t.Rated, t.Rate.Errors)).html()}
}

func (v pluginView) state() g.Node {
	return h.Span(h.Class("state "+either(v.Bad(), "bad", string(v.State))), g.Text(string(v.State)))
}

func (c cell) html() g.Node {
	class := "number"
	if c.Bad {
		class += " bad"
	} else if c.Faint {
		class += " faint"
	}
	return h.Td(h.Class(class), h.Data("label", c.Label), g.Text(c.Text))
}

// section is a section with an element that page.js replaces.
func section(id, title string, content g.Node) g.Node {
	return sectionOf(id, title, h.Div(h.ID(id), live, content))
}

func sectionOf(id, title string, content ...g.Node) g.Node {
	return h.Section(h.Aria("labelledby", id+"-title"), h.H2(h.ID(id+"-title"), g.Text(title)), g.Group(content))
}

// table is a table. The names of columns of numbers begin with #.
func table(class string, columns []string, rows g.Group) g.Node {
	return h.Table(h.Class(class), h.THead(h.Tr(g.Map(columns, func(column string) g.Node {
		name, isNumber := strings.CutPrefix(column, "#")
		return h.Th(h.Scope("col"), g.If(isNumber, h.Class("number")), g.Text(name))
	}))), h.TBody(rows))
}

func rowHeader(content ...g.Node) g.Node { return h.Th(h.Scope("row"), g.Group(content)) }

func labelled(label string, content g.Node) g.Node { return h.Td(h.Data("label", label), content) }

func revision(n int) g.Node { return number("Revision", revisionOr(n, "–")).html() }

func revisionOr(n int, none string) string {
	if n == 0 {
		return none
	}
	return fmt.Sprint(n)
}

func fact(name string, value ...g.Node) g.Node { return h.Div(h.Dt(g.Text(name)), h.Dd(value...)) }

func faint(text string) g.Node { return h.Span(h.Class("faint"), g.Text(text)) }

func message(text string) g.Node {
	return g.If(text != "", h.Span(h.Class("message"), g.Text(text)))
}

func times(n int) g.Node { return g.If(n > 1, g.Textf(", %d times", n)) }

func linkIf(href string, content g.Node) g.Node {
	if href == "" {
		return content
	}
	return h.A(h.Href(href), content)
}

// linkTo returns the link from the overview to the page of a plugin, whose name may be any file name.
func linkTo(plugin string) string { return "ui/plugins/" + url.PathEscape(plugin) }

// orNone is the content, or a sentence if there is nothing to show.
func orNone[T any](all []T, none string, content func() g.Node) g.Node {
	if len(all) == 0 {
		return h.P(g.Text(none))
	}
	return content()
}

func either(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}

// joined joins two texts. The second one may be empty.
func joined(separator, a, b string) string {
	if b == "" {
		return a
	}
	return a + separator + b
}
