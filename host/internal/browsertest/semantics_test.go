package browsertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
)

// What a screen reader gets is a page with a title and a language, with headings and landmarks, tables whose
// rows and columns have headers, and fields with labels, in any size.
func testSemantics(t *testing.T, s *scene) {
	b := newTab(t)
	for _, size := range []size{narrow, wide} {
		b.viewport(size)
		b.open(s, overviewPath)
		b.expectRoles(size.name, map[string][]string{
			"RootWebArea": {"Status · Thole"}, "banner": {""}, "main": {""}, "button": {"Pause"}, "status": {""},
			"heading": {"1 Status", "2 Plugins", "2 Objects that fail or wait", "2 Slowest objects", "2 Loads"},
			"region":  {"Plugins", "Objects that fail or wait", "Slowest objects", "Loads"},
		})
		b.expectTables(size.name, 4)
		b.open(s, pluginPath)
		b.expectRoles(size.name, map[string][]string{
			"RootWebArea": {"Plugin billing · Thole"}, "banner": {""}, "main": {""}, "button": {"Pause", "Show"}, "status": {""},
			"heading": {"1 Plugin billing", "2 Controllers", "2 Objects", "2 Loads"}, "region": {"Controllers", "Objects", "Loads"},
			"navigation": {"Breadcrumb", "Pages"}, "searchbox": {"Object"}, "combobox": {"Controller", "First"},
		})
		b.expectTables(size.name, 3)
		if lang := eval[string](b, "document.documentElement.lang"); lang != "en" {
			t.Errorf("the language is %q", lang)
		}
	}
}

// roles returns the names of the nodes of the accessibility tree, by their roles, in order. That of a heading
// begins with its level.
func (b *tab) roles() map[string][]string {
	b.Helper()
	roles := map[string][]string{}
	for _, node := range call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if node.Ignored {
			continue
		}
		role, name := text(node.Role), text(node.Name)
		for _, p := range node.Properties {
			if role == "heading" && p.Name == accessibility.PropertyNameLevel {
				name = text(p.Value) + " " + name
			}
		}
		roles[role] = append(roles[role], name)
	}
	return roles
}

// text returns a value of the tree as a text.
func text(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	var value any
	if err := json.Unmarshal(v.Value, &value); err != nil {
		return err.Error()
	}
	return fmt.Sprint(value)
}

func (b *tab) expectRoles(page string, want map[string][]string) {
	b.Helper()
	roles := b.roles()
	for role, names := range want {
		if got := roles[role]; !slices.Equal(got, names) {
			b.Errorf("%s: %s %q, want %q", page, role, got, names)
		}
	}
}

// expectTables expects so many tables, none without headers of columns and of each row.
func (b *tab) expectTables(page string, tables int) {
	b.Helper()
	roles := b.roles()
	rows := eval[int](b, `document.querySelectorAll("tbody tr").length`)
	columns := eval[int](b, `document.querySelectorAll("thead th").length`)
	for role, want := range map[string]int{"table": tables, "rowheader": rows, "columnheader": columns, "row": tables + rows} {
		names := roles[role]
		if len(names) != want {
			b.Errorf("%s: %d of role %s, want %d", page, len(names), role, want)
		}
		if strings.HasSuffix(role, "header") && slices.Contains(names, "") {
			b.Errorf("%s: a %s has no name: %q", page, role, names)
		}
	}
}
