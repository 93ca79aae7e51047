package config

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// decodeStrict decodes one document of YAML or JSON into a struct. Its error
// says of all that does not fit where it is, what is there and what may be. It
// returns the paths of the numbers and durations that are zero as written: a
// zero field of the struct is one that is not there, and has its default.
func decodeStrict(text []byte, into any) (zeros []string, err error) {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, yamlError(err)
	}
	if err := oneDocument(text); err != nil {
		return nil, err
	}
	var given any
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber()
	if err := decoder.Decode(&given); err != nil {
		return nil, err
	}
	var check form
	check.value("", reflect.TypeOf(into).Elem(), given)
	if len(check.misfits) > 0 {
		return nil, errors.Join(check.misfits...)
	}
	return check.zeros, json.Unmarshal(asJSON, into)
}

// yamlError is what the parser says, in one line and without the names of its
// own functions.
func yamlError(err error) error {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	text = strings.TrimPrefix(text, "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors:\n  ")
	text = strings.ReplaceAll(text, "\n  ", "; ")
	if strings.HasSuffix(text, "cannot start any token") {
		text += " (a tab? YAML is indented with spaces)"
	}
	return fmt.Errorf("no valid YAML: %s", text)
}

// oneDocument refuses a second document, of which nothing would be read.
func oneDocument(text []byte) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for found := 0; ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var content any
		if err == nil {
			err = yaml.Unmarshal(document, &content)
		}
		if err != nil {
			return yamlError(err)
		}
		if content != nil { // more than comments
			found++
		}
		if found > 1 {
			return errors.New(`holds several documents, but only one counts: take out the line "---" and put their fields together`)
		}
	}
}
