package egress

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestURLIsWrittenInOneWay(t *testing.T) {
	for text, want := range map[string]string{
		"https://example.com":                     "https://example.com",
		"HTTPS://EXAMPLE.com.:443/A?B#C":          "https://example.com/A?B",
		"https://example.com:8443/":               "https://example.com:8443/",
		"http://example.com:443/":                 "http://example.com:443/",
		"https://bücher.example/":                 "https://xn--bcher-kva.example/",
		"https://b%C3%BCcher.example/":            "https://xn--bcher-kva.example/",
		"https://XN--BCHER-KVA.example/":          "https://xn--bcher-kva.example/",
		"https://a_b.example/":                    "https://a_b.example/",
		"https://r3---sn.example/":                "https://r3---sn.example/",
		"https://[2001:DB8:0::1]:443/":            "https://[2001:db8::1]/",
		"https://[::ffff:192.0.2.1]:8443/":        "https://192.0.2.1:8443/",
		"https://example.com?":                    "https://example.com?",
		"https://example.com/a%2fb/%C3%BC?q=%20x": "https://example.com/a%2fb/%C3%BC?q=%20x",
		"https://1.example/":                      "https://1.example/",
		"https://0x.example/":                     "https://0x.example/",
	} {
		u, to, err := parseURL(text)
		if err != nil || u.String() != want {
			t.Errorf("%s: %v, %v, want %s", text, u, err, want)
			continue
		}
		again, same, err := parseURL(u.String())
		if err != nil || same != to || again.String() != want {
			t.Errorf("%s again: %v, %v, %v", text, again, same, err)
		}
	}
}

func TestWhatIsNoURLIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "example.com", "https:", "https://", "https:///a", "https://:443/", "mailto:a@example.com", "https:example.com", "https://-a.example/", "https://a-.example/",
		"https://a..example/", "https://" + strings.Repeat("a", 64) + ".example/", "https://" + strings.Repeat("a.", 126) + "example/", "https://a b.example/", "https://a*.example/",
		"https://a!.example/", "https://[::1", "https://::1]/", "https://[]/", "https://[::1]x/", "https://[v1.a]/", "https://xn--ls8h=.example/", "https://%zz/", "https://example.com:a/",
		"https://%66%FF.example/", "https://a\u00df\u200d.example/", "https://xn--a/", "wss://example.com/", "https://example.com/\x7f", "https://ex\u0000ample.com/",
		`https://example.com/a\b`, `https://example.com/?a\b`, "https://example.com/a b",
	} {
		if u, to, err := parseURL(text); err == nil {
			t.Errorf("%q: %v, %+v", text, u, to)
		}
	}
}

func TestURLWithoutAHostIsNamedSo(t *testing.T) {
	for _, text := range []string{"https:", "https:///a", "https:example.com"} {
		if _, _, err := parseURL(text); err == nil || !strings.HasPrefix(err.Error(), "has no host") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What is accepted is dialled as it was checked: the URL that is sent has no host but that
// of the target, another parser finds the same one in it, and an address is never a name.
func FuzzURL(f *testing.F) {
	for _, test := range ssrf {
		f.Add(test.url)
	}
	for _, text := range []string{"https://example.com:8443/a?b#c", "https://b%C3%BCcher.example/", "http://a@b@c/", "http://0x7f.1/", "http://１.2.3.4"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, to, err := parseURL(text)
		if err != nil {
			return
		}
		if u.User != nil || u.Opaque != "" || u.Fragment != "" || u.Host != to.authority() || u.Scheme != to.scheme || to.port == 0 || (to.name == "") != to.addr.IsValid() {
			t.Fatalf("%q: %+v, %+v", text, u, to)
		}
		if to.addr.Zone() != "" || to.addr.Is4In6() {
			t.Fatalf("%q: address %s", text, to.addr)
		}
		// A name is none of an address, for any of the parsers behind us.
		if _, err := netip.ParseAddr(to.name); err == nil {
			t.Fatalf("%q: the name %s is an address", text, to.name)
		}
		if strings.Trim(to.name, "0123456789.xabcdef") == "" && to.name != "" && strings.Trim(to.name[strings.LastIndexByte(to.name, '.')+1:], "0123456789") == "" {
			t.Fatalf("%q: the name %s ends in a number", text, to.name)
		}
		for i := range len(to.name) {
			if c := to.name[i]; !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-_", rune(c)) {
				t.Fatalf("%q: the name %q", text, to.name)
			}
		}
		// What the transport dials and names to the server is in the text of the URL.
		sent := u.String()
		other, err := url.Parse(sent)
		if err != nil || other.Hostname() != to.host() {
			t.Fatalf("%q: %s has the host %v, %v, want %s", text, sent, other, err, to.host())
		}
		authority, _, _ := strings.Cut(strings.TrimPrefix(sent, to.scheme+"://"), "/")
		authority, _, _ = strings.Cut(authority, "?")
		if authority != to.authority() || strings.ContainsAny(sent, "\\ \t\r\n") {
			t.Fatalf("%q: %s", text, sent)
		}
		again, same, err := parseURL(sent)
		if err != nil || same != to || again.String() != sent {
			t.Fatalf("%q: %s is parsed as %v, %+v, %v", text, sent, again, same, err)
		}
		// An address that is not public needs an entry that allows it.
		if to.addr.IsValid() && (to.addr.IsPrivate() || to.addr.IsLoopback() || to.addr.IsLinkLocalUnicast() || to.addr.IsMulticast() || to.addr.IsUnspecified()) {
			if _, ok := (addresses{}).allow(to.addr); ok {
				t.Fatalf("%q: %s is public", text, to.addr)
			}
		}
	})
}
