package egress

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// needles are the texts in which a credential may occur in an answer: as it is, and as servers
// encode it that echo a request.
type needles [][]byte

// minEncoded is the length of the shortest part of an encoded secret that is looked for. Shorter
// ones would occur in answers that have nothing to do with it.
const minEncoded = 8

// add adds a secret in its encodings.
func (n *needles) add(secret string) {
	if secret == "" {
		return
	}
	n.put(secret)
	once := unescape([]byte(secret)) // what is found of one that has escapes itself
	n.put(string(once))
	n.put(string(unescape(once)))
	n.put(base64.StdEncoding.EncodeToString([]byte(secret)))
	n.put(base64.URLEncoding.EncodeToString([]byte(secret)))
	n.addWithin(secret)
}

// addLine adds a line of a key as PEM, which has no escapes, and which is encoded with other lines.
func (n *needles) addLine(line string) {
	n.put(line)
	n.addWithin(line)
}

// addWithin adds the encodings of a secret that is a part of what is encoded.
func (n *needles) addWithin(secret string) {
	n.putLong(hex.EncodeToString([]byte(secret)))
	n.putLong(strings.ToUpper(hex.EncodeToString([]byte(secret))))
	for offset := range 3 { // of the secret within a longer text that is encoded as a whole
		n.putLong(within(base64.RawStdEncoding, secret, offset))
		n.putLong(within(base64.RawURLEncoding, secret, offset))
	}
}

// within returns the part of a base64 text that depends on nothing but the secret, which begins at
// an offset, modulo 3, in what is encoded.
func within(encoding *base64.Encoding, secret string, offset int) string {
	encoded := encoding.EncodeToString([]byte(strings.Repeat("\x00", offset) + secret))
	begin := []int{0, 2, 3}[offset]
	end := (offset + len(secret)) * 8 / 6 // the character behind it has bits of what follows
	return encoded[min(begin, end):end]
}

func (n *needles) put(text string) {
	if !slices.ContainsFunc(*n, func(other []byte) bool { return string(other) == text }) {
		*n = append(*n, []byte(text))
	}
}

func (n *needles) putLong(text string) {
	if len(text) >= minEncoded {
		n.put(text)
	}
}

// in reports whether a text contains one of the needles, of which characters may be escaped. The result
// means nothing once ctx has ended, which ends the search.
func (n needles) in(ctx context.Context, text []byte) bool {
	return n.inAny(ctx, text, func(text []byte) []byte { return text })
}

// inHeader reports whether a header contains one, whatever the case of letters, which names of
// headers and hosts lose. It ends as [needles.in] does.
func (n needles) inHeader(ctx context.Context, header http.Header) bool {
	folded := make(needles, len(n))
	for i, needle := range n {
		folded[i] = bytes.ToLower(needle)
	}
	for name, values := range header {
		for _, text := range append([]string{name}, values...) {
			if folded.inAny(ctx, []byte(text), bytes.ToLower) {
				return true
			}
		}
	}
	return false
}

// inAny looks for the needles in a text as it is, and without its escapes.
func (n needles) inAny(ctx context.Context, text []byte, fold func([]byte) []byte) bool {
	for range 1 + escapings {
		folded := fold(text)
		for _, needle := range n {
			if ctx.Err() != nil {
				return false
			}
			if bytes.Contains(folded, needle) {
				return true
			}
		}
		if !bytes.ContainsAny(text, "%\\&\x00\r\n") {
			return false
		}
		text = unescape(text)
	}
	return false
}

// escapings is how often a text may be escaped, as is JSON in the query of a URL.
const escapings = 2

// unescape removes the escapes of URLs, of JSON and of HTML, each of which any character may have
// or not. What is no escape stays. Spaces become +, as they are in the query of a URL.
// Bytes 0 and line breaks are removed, also escaped ones: base64 is often written in lines.
func unescape(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		n := 1
		switch text[0] {
		case '%', '\\', '&':
			out, n = appendMeant(out, text)
		case ' ':
			out = append(out, '+')
		case 0, '\r', '\n': // of UTF-16, and between lines
		default:
			out = append(out, text[0])
		}
		text = text[n:]
	}
	return out
}

// appendMeant appends what an escape at the begin of a text means, and returns its length.
func appendMeant(out, text []byte) ([]byte, int) {
	switch {
	case text[0] == '%':
		if code, ok := number(text, 1, 3, 16); ok {
			return append(out, byte(code)), 3
		}
	case text[0] == '&':
		if code, n := entity(text); n > 0 {
			return utf8.AppendRune(out, code), n
		}
	case len(text) > 1 && text[1] == 'u':
		if code, n := utf16Escape(text); n > 0 {
			return utf8.AppendRune(out, code), n
		}
	case len(text) > 1 && text[1] == 'x':
		if code, ok := number(text, 2, 4, 16); ok {
			return append(out, byte(code)), 4
		}
	case len(text) > 1 && (text[1] == 'r' || text[1] == 'n'):
		return out, 2
	case len(text) > 1: // such as \" and \/
		return append(out, text[1]), 2
	}
	return append(out, text[0]), 1
}

// utf16Escape returns the character that \uXXXX stands for, with a second one for the other half of a
// surrogate pair, and its length; 0 if it is none.
func utf16Escape(text []byte) (rune, int) {
	high, ok := number(text, 2, 6, 16)
	if !ok {
		return 0, 0
	}
	if rest := text[6:]; len(rest) > 1 && rest[0] == '\\' && rest[1] == 'u' {
		if low, ok := number(rest, 2, 6, 16); ok {
			if pair := utf16.DecodeRune(rune(high), rune(low)); pair != utf8.RuneError {
				return pair, 12
			}
		}
	}
	return rune(high), 6
}

// entities are those of HTML that stand for characters which have to be escaped there.
var entities = map[string]rune{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\''}

// maxEntity is the length of the longest one, such as &#1114111;.
const maxEntity = 10

// entity returns the character that an entity of HTML stands for, and its length; 0 if it is none.
func entity(text []byte) (rune, int) {
	end := bytes.IndexByte(text[:min(len(text), maxEntity)], ';')
	if end < 2 {
		return 0, 0
	}
	if text[1] != '#' {
		if meant, ok := entities[string(text[1:end])]; ok {
			return meant, end + 1
		}
		return 0, 0
	}
	from, base := 2, 10
	if text[2] == 'x' || text[2] == 'X' {
		from, base = 3, 16
	}
	if code, ok := number(text, from, end, base); ok {
		return rune(code), end + 1
	}
	return 0, 0
}

// number returns the number that a part of a text is.
func number(text []byte, from, to, base int) (n int, ok bool) {
	if len(text) < to || from >= to {
		return 0, false
	}
	for _, c := range text[from:to] {
		digit := strings.IndexByte("0123456789abcdef"[:base], c|0x20) // of letters in lower case
		if digit < 0 || c < '0' {
			return 0, false
		}
		n = n*base + digit
	}
	return n, true
}
