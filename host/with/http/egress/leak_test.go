package egress

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	contract "github.com/thole-dev/thole/abi/http"
)

func TestAnswerWithoutTheCredentialIsNotWithheld(t *testing.T) {
	var n needles
	n.add("the-token-of-the-host")
	n.add("")
	for _, text := range []string{"", "the-token-of-the-hos", "THE-TOKEN-OF-THE-HOST", "100 % \\ & &amp; %zz \\u12 \\", base64.StdEncoding.EncodeToString([]byte("the-token-of"))} {
		if n.in(t.Context(), []byte(text)) {
			t.Errorf("%q", text)
		}
	}
	if n.inHeader(t.Context(), http.Header{"X-Token": {"the", "token-of-the-host"}}) {
		t.Error("header")
	}
	var none needles
	if none.in(t.Context(), []byte("a%41")) || none.inHeader(t.Context(), http.Header{"A": {"b"}}) {
		t.Error("there is nothing to find")
	}
}

func TestUnescape(t *testing.T) {
	for text, want := range map[string]string{
		"a": "a", "a b": "a+b", "a\x00b\x00": "ab", "%41": "A", "%4": "%4", "%": "%", "%%41": "%A", `\u0041\x42\"\/\\`: `AB"/\`, `\u004`: `\u004`, `\x4`: `\x4`, `\`: `\`,
		"a\r\nb\n": "ab", `a\r\nb\n`: "ab", `\ud83d\udd11`: "\U0001f511", `\ud83d\u0041`: "\ufffdA", `\ud83d\u`: `�\u`, `\ud83d`: "\ufffd",
		"&amp;&#65;&#x41;&lt": "&AA&lt", "&": "&", "&;": "&;", "&nothing;": "&nothing;", "&#;&#x;&#xzz;&#99999999;": "&#;&#x;&#xzz;&#99999999;", "&#X3c;&apos;": "<'", "%26amp;": "&amp;",
	} {
		if got := string(unescape([]byte(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// inLines breaks a text as MIME does.
func inLines(text, end string) string {
	var out strings.Builder
	for ; len(text) > 76; text = text[76:] {
		out.WriteString(text[:76] + end)
	}
	return out.String() + text
}

// However a server encodes what contains a secret, the secret is found.
func FuzzLeak(f *testing.F) {
	f.Add("s3cret/tok&n+\"with\"<marks>~?", "before ", " behind")
	f.Add(`%41\u0041&amp;long`, "", "%")
	f.Add("päss word", "&", ";")
	f.Add(strings.Repeat("long-token", 12), strings.Repeat("a", 60), "b")
	f.Fuzz(func(t *testing.T, secret, before, behind string) {
		if len(secret) < 8 || !utf8.ValidString(secret) || strings.ContainsFunc(secret, unicode.IsControl) {
			return
		}
		var n needles
		n.add(secret)
		text := before + secret + behind
		asJSON, _ := json.Marshal(secret)
		for name, body := range map[string]string{
			"plain": text, "base64": base64.StdEncoding.EncodeToString([]byte(text)), "base64 of URLs": base64.URLEncoding.EncodeToString([]byte(text)),
			"hex": fmt.Sprintf("%x", text), "base64 in lines": inLines(base64.StdEncoding.EncodeToString([]byte(text)), "\r\n"), "base64 in lines in JSON": inLines(base64.StdEncoding.EncodeToString([]byte(text)), `\n`),
		} {
			if !n.in(t.Context(), []byte(body)) {
				t.Errorf("%s of %q is not found in %q", name, secret, body)
			}
		}
		if string(unescape([]byte(secret))) != strings.ReplaceAll(secret, " ", "+") {
			return // of one that looks like an escape, not every encoding is found
		}
		for name, body := range map[string]string{
			"UTF-16": strings.Join(strings.Split(text, ""), "\x00"), "JSON": "{" + string(asJSON) + "}", "HTML": "<p>" + html.EscapeString(secret), "query": "?a=" + url.QueryEscape(secret), "path": "/" + url.PathEscape(secret),
			"JSON in a query": "?a=" + url.QueryEscape("{"+string(asJSON)+"}"),
		} {
			if !n.in(t.Context(), []byte(body)) {
				t.Errorf("%s of %q is not found in %q", name, secret, body)
			}
			if !n.inHeader(t.Context(), http.Header{"X": {body}}) {
				t.Errorf("%s of %q is not found in a header with %q", name, secret, body)
			}
		}
	})
}

// TestSearchEndsWithTheCall: the search of a large answer must not outlive its call.
func TestSearchEndsWithTheCall(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	var n needles
	n.add("the-token-of-the-host")
	if n.in(ctx, []byte("the-token-of-the-host")) || n.inHeader(ctx, http.Header{"A": {"the-token-of-the-host"}}) {
		t.Error("the search went on after the end of its context")
	}

	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Repeat("y", most-100)+"the-token-of-the-host")
	})
	e := local(server)
	e.SecretRef = &SecretRef{Namespace: "n", Name: "s"}
	c := newClient(t, Config{Entries: Entries{e}, Secrets: secretOf("token", "the-token-of-the-host")})
	ctx, end = context.WithTimeout(t.Context(), time.Hour)
	defer end()
	x := &exchange{client: c.Client, most: most}
	x.may = func() error {
		c.secrets.withheld.add(SecretRef{Name: "long"}, &credential{secrets: slices.Repeat(needles{[]byte("~")}, 1e5)})
		return nil
	}
	q, err := c.parse(&contract.Call{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	short, stop := context.WithTimeout(ctx, time.Second/5)
	defer stop()
	began := time.Now()
	_, err = x.send(short, q, c.rules[0])
	if f, ok := errors.AsType[*failure](err); !ok || f.reason != contract.Timeout {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

func TestKeyIsSearchedForByFewLines(t *testing.T) {
	ca := newAuthority(t)
	certificate, key := ca.issueRSA(t)
	c, err := parseCredential(map[string][]byte{"tls.crt": []byte(certificate), "tls.key": []byte(key)})
	if err != nil || len(c.secrets) > 50 {
		t.Fatalf("%d needles, %v", len(c.secrets), err)
	}
	lines := strings.Split(strings.TrimSpace(key), "\n")
	for name, text := range map[string]string{
		"whole": key, "first half": strings.Join(lines[:len(lines)/2], "\n"), "last half": strings.Join(lines[len(lines)/2:], "\n"), "JSON": strings.ReplaceAll(key, "\n", `\n`),
		"base64": base64.StdEncoding.EncodeToString([]byte(key)), "hex": fmt.Sprintf("%x", key), "URL": url.QueryEscape(key),
	} {
		if !c.secrets.in(t.Context(), []byte(text)) {
			t.Errorf("%s: the key is not found", name)
		}
	}
	if got := keyLines([]byte("-----BEGIN X-----\n" + strings.Repeat("a", 31) + "\n-----END X-----\n")); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

func BenchmarkLeakOfAKey(b *testing.B) {
	certificate, key := newAuthority(b).issueRSA(b)
	c, err := parseCredential(map[string][]byte{"tls.crt": []byte(certificate), "tls.key": []byte(key)})
	if err != nil {
		b.Fatal(err)
	}
	random := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(random)
	for name, body := range map[string][]byte{"plain": bytes.Repeat([]byte("some text "), 4<<20/10), "base64": []byte(base64.StdEncoding.EncodeToString(random)), "base64 in lines": []byte(inLines(base64.StdEncoding.EncodeToString(random), "\n"))} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				c.secrets.in(b.Context(), body)
			}
		})
	}
}

func BenchmarkLeak(b *testing.B) {
	var n needles
	n.add("the-token-of-the-host")
	n.add("another-token-of-the-host")
	for name, body := range map[string][]byte{"plain": bytes.Repeat([]byte("some text "), 1<<17), "escapes": bytes.Repeat([]byte(`%41\n&;`), 1<<17)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				n.in(b.Context(), body)
			}
		})
	}
}
