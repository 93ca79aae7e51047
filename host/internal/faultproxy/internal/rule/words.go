package rule

import (
	"fmt"
	"strings"
)

// split splits a line at white space that is not quoted. 'text' is taken as it is;
// in "text" a backslash makes the next character ordinary, and \n is the end of a
// line. A word that begins with '#' begins a comment.
func split(line string) ([]string, error) {
	var words []string
	rest := strings.TrimSpace(line)
	for rest != "" && rest[0] != '#' {
		word, after, err := firstWord(rest)
		if err != nil {
			return nil, err
		}
		words, rest = append(words, word), strings.TrimSpace(after)
	}
	return words, nil
}

// firstWord returns a word without its quotes, and the text after it.
func firstWord(text string) (word, after string, err error) {
	var b strings.Builder
	for text != "" && !strings.ContainsRune(" \t\r", rune(text[0])) {
		quote := text[0]
		if quote != '"' && quote != '\'' {
			b.WriteByte(quote)
			text = text[1:]
			continue
		}
		length, ok := quoted(&b, text[1:], quote)
		if !ok {
			return "", "", fmt.Errorf("the quote of %s is not closed: want key=\"a b\" or key='a b'", text)
		}
		text = text[1+length:]
	}
	return b.String(), text, nil
}

// quoted writes text up to the closing quote, and returns the length up to after it.
func quoted(b *strings.Builder, text string, quote byte) (length int, ok bool) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == quote:
			return i + 1, true
		case c == '\\' && quote == '"' && i+1 < len(text):
			i++
			if c = text[i]; c == 'n' {
				c = '\n'
			}
		}
		b.WriteByte(c)
	}
	return 0, false
}
