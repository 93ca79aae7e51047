package egress

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Keys of a Secret with a credential.
const (
	keyToken       = "token"
	keyUsername    = "username"
	keyPassword    = "password"
	keyCertificate = "tls.crt"
	keyKey         = "tls.key"
	keyCA          = "ca.crt"
)

// credential is what a Secret has for a host. It does not change.
type credential struct {
	token       string
	basic       string           // the value of the header Authorization
	certificate *tls.Certificate // of the client
	roots       *x509.CertPool   // nil: those of the entry
	tls         [sha256.Size]byte
	all         [sha256.Size]byte // of everything, to find out whether the Secret has changed
	secrets     needles
}

// parseCredential reads a Secret. Errors name its keys and have nothing of its values.
func parseCredential(data map[string][]byte) (*credential, error) {
	c := &credential{tls: hashOf(data, keyCertificate, keyKey, keyCA), all: hashOf(data, keyToken, keyUsername, keyPassword, keyCertificate, keyKey, keyCA)}
	text := func(key string) string { return strings.TrimRight(string(data[key]), "\r\n") } // files end in a line break
	switch token, username, password := text(keyToken), text(keyUsername), text(keyPassword); {
	case token != "":
		c.token = token
		c.secrets.add(token)
	case password != "":
		if strings.Contains(username, ":") {
			return nil, fmt.Errorf("its %s has a colon", keyUsername)
		}
		encoded := base64.StdEncoding.EncodeToString([]byte(username + ":" + password))
		c.basic = "Basic " + encoded
		c.secrets.add(encoded)
		c.secrets.add(password)
		c.secrets.add(username + ":" + password)
	}
	if !httpguts.ValidHeaderFieldValue(c.token) {
		return nil, fmt.Errorf("its %s has a character that no header may have", keyToken)
	}
	if err := c.parseTLS(data); err != nil {
		return nil, err
	}
	if c.token == "" && c.basic == "" && c.certificate == nil && c.roots == nil {
		return nil, fmt.Errorf("it has no value for %s, none for %s with %s, and none for %s with %s", keyToken, keyUsername, keyPassword, keyCertificate, keyKey)
	}
	return c, nil
}

func (c *credential) parseTLS(data map[string][]byte) (err error) {
	if len(data[keyCertificate]) > 0 || len(data[keyKey]) > 0 {
		pair, err := tls.X509KeyPair(data[keyCertificate], data[keyKey])
		if err != nil {
			return fmt.Errorf("its %s and %s are not a certificate and its key as PEM", keyCertificate, keyKey)
		}
		c.certificate = &pair
		for block, rest := pem.Decode(data[keyKey]); block != nil; block, rest = pem.Decode(rest) {
			c.secrets.add(string(block.Bytes))
		}
		for _, line := range keyLines(data[keyKey]) {
			c.secrets.addLine(line)
		}
	}
	if len(data[keyCA]) > 0 {
		if c.roots, err = parseCA(data[keyCA]); err != nil {
			return errors.New("its " + keyCA + " " + err.Error())
		}
	}
	return nil
}

const (
	// minKeyLine is the length of the shortest line of a key that no answer may have: the last one may
	// have a few characters, which occur anywhere.
	minKeyLine = 32
	// maxKeyLines bounds how many lines of a key are searched for. Each costs a search of the answer for
	// each of its encodings.
	maxKeyLines = 3
)

// keyLines returns the longest lines of a key as PEM, in their order. Of several of the same length they
// are the first one, the last one and the one in the middle, so that a part of the key is noticed
// as well.
func keyLines(key []byte) (lines []string) {
	for line := range bytes.Lines(key) {
		if line = bytes.TrimSpace(line); len(line) >= minKeyLine && !bytes.HasPrefix(line, []byte("-----")) {
			lines = append(lines, string(line))
		}
	}
	longest := 0
	for _, line := range lines {
		longest = max(longest, len(line))
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return len(line) < longest })
	if n := len(lines); n > maxKeyLines {
		return []string{lines[0], lines[n/2], lines[n-1]}
	}
	return lines
}

// hashOf returns a hash of the values of some keys.
func hashOf(data map[string][]byte, keys ...string) [sha256.Size]byte {
	hash := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if slices.Contains(keys, key) {
			fmt.Fprintf(hash, "%s %d ", key, len(data[key]))
			hash.Write(data[key])
		}
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

// set adds the credential to the header of a request. name is that of [Entry].Header.
func (c *credential) set(header http.Header, name string) {
	switch {
	case c.token != "" && name == "":
		header.Set(authorization, "Bearer "+c.token)
	case c.token != "":
		header.Set(name, c.token)
	case c.basic != "":
		header.Set(authorization, c.basic)
	}
}
