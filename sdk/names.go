package sdk

import (
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

const (
	// maxLabel is the length of a DNS label (RFC 1123), and of the value of a label.
	maxLabel = 63
	// nameLetters is what the API server chooses from for a generateName. It has no
	// vowels, so that no words appear, and nothing that looks like one.
	nameLetters = "bcdfghjklmnpqrstvwxz2456789"

	hashLength   = 10 // 27^10 is about 2^47
	suffixLength = 5  // as after a generateName

	suffixes = 27 * 27 * 27 * 27 * 27 // how many suffixes there are
	// suffixStep is between the suffixes of names that follow each other. It is no multiple of 3, so that
	// they only repeat after all suffixes, and such that all letters of neighbours differ.
	suffixStep = 8868089
)

// ChildName returns a name for a child of the primary: the primary's name and the
// parts, joined by '-'. It depends on these alone, so that every run gets the same, and
// so does a primary that was deleted and created again.
//
//	r.ChildName("web")         // shop-web, if the primary is shop
//	r.ChildName("web", "blue") // shop-web-blue
//
// Parts are any text. The name is always a DNS label (RFC 1123) of at most 63
// characters. If the joined text is none, or if a part is empty or has a '-', then
// the name is its beginning, with '-' for what a label cannot have, and a hash of 10
// characters: shop-a-b-s95sbxdmdj for the part "a-b". It also has one if the last part
// looks like a hash. So the lists of parts of one primary have different names,
// ("a-b", "c") and ("a", "b-c") too, but for collisions of the hash, of 47 bits, which
// somebody who chooses the parts can produce.
//
// Primaries of one namespace and kind have different names for lists of the same
// length. Of different lengths, the primaries shop and shop-web have one in common:
// shop-web-blue. Controllers of several kinds should begin with a part of their own
// each.
func (r *Run) ChildName(parts ...string) string {
	primary := r.primaryName()
	name := strings.Join(append([]string{primary}, parts...), "-")
	if arePlain(parts) && abi.ValidName(name) {
		return name
	}
	digest := fnv.New64a()
	for _, part := range append([]string{primary}, parts...) {
		_, _ = digest.Write([]byte(strconv.Itoa(len(part)) + ":" + part)) // with its length, so that no two lists are the same text
	}
	hash := inLetters(digest.Sum64(), hashLength)
	begin := strings.TrimRight(labelPrefix(name, maxLabel-hashLength-1), "-")
	if begin == "" {
		return hash
	}
	return begin + "-" + hash
}

// primaryName returns the name of the primary.
func (r *Run) primaryName() string {
	name, _ := rawjson.Lookup(r.object, "metadata", "name")
	return rawjson.NewReader(name).String()
}

// arePlain reports whether no other parts yield the same name when they are joined. The
// last part of names with a hash must not be one of a name without.
func arePlain(parts []string) bool {
	for i, part := range parts {
		last := i == len(parts)-1
		if part == "" || strings.Contains(part, "-") || last && len(part) == hashLength && strings.Trim(part, nameLetters) == "" {
			return false
		}
	}
	return true
}

// UniqueName returns a name for an object that is created once, as the API server does
// for a generateName: the prefix and 5 characters.
//
//	r.UniqueName(r.Name + "-") // shop-x7kq2
//
// Each call of a run returns another name. They are derived from Seed, so that a
// repeated run of the same request gets the same names, and the next run others: one of
// 14 million, which may be taken.
//
// The name is always a DNS label (RFC 1123) of at most 63 characters. Of the prefix it has
// up to 58, with lower case letters, and with '-' for other characters than letters and
// digits, except at the beginning.
func (r *Run) UniqueName(prefix string) string {
	digest := fnv.New64a()
	_, _ = digest.Write(r.Seed[:])
	first := digest.Sum64() >> 1 // adding to it does not overflow
	r.uniqueNames++
	suffix := (first + r.uniqueNames) % suffixes * suffixStep // below 2^48
	return labelPrefix(prefix, maxLabel-suffixLength) + inLetters(suffix, suffixLength)
}

// labelPrefix returns at most limit characters of a text as the beginning of a DNS label,
// with '-' for each character that cannot be in one. The result may end with '-'.
func labelPrefix(text string, limit int) string {
	label := make([]byte, 0, limit)
	for _, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		valid := c < 0x80 && isLowerOrDigit(byte(c))
		switch {
		case len(label) == limit:
			return string(label)
		case valid:
			label = append(label, byte(c))
		case len(label) > 0:
			label = append(label, '-')
		}
	}
	return string(label)
}

// inLetters returns the lowest digits of n to the base of 27, as letters. Numbers that
// differ by less than 27^length have different ones.
func inLetters(n uint64, length int) string {
	text := make([]byte, length)
	for i := range text {
		text[i] = nameLetters[n%uint64(len(nameLetters))]
		n /= uint64(len(nameLetters))
	}
	return string(text)
}

func isLowerOrDigit(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
