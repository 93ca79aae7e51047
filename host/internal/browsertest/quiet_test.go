package browsertest

import "testing"

// The paths of the two pages.
const (
	overviewPath = "/ui"
	pluginPath   = "/ui/plugins/billing"
)

// TestPagesOfAHost has what can be seen while nothing happens on a host.
func TestPagesOfAHost(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.populate()
	for name, test := range map[string]func(*testing.T, *scene){
		"LookRight":                  testLooks,
		"AreAuditedStrictly":         testAudit,
		"AreAccessible":              testSemantics,
		"NeedNoPointer":              testKeyboard,
		"NeedNoScripts":              testWithoutScripts,
		"HaveTheNumbersOfTheMetrics": testNumbers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}
