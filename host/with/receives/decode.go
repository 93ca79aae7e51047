package receives

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/thole-dev/thole/abi/rawjson"
	contract "github.com/thole-dev/thole/abi/receives"
	"github.com/thole-dev/thole/host/sanitize"
)

// This file has how events are read. The SDK of CloudEvents reads their attributes, after checks of what
// it takes all the same, such as attributes that are there twice, of which it would believe one. Data
// stays the bytes that were sent.

// received is an event that is valid.
type received struct {
	event.Event        // without data
	json        []byte // the event in JSON format
	index       int    // in its batch, from 0
	batched     bool
}

// maxDepth bounds the nesting of an event.
const maxDepth = 1000

// mode is how the events of a request are sent.
type mode int

const (
	binaryMode mode = iota
	structuredMode
	batchMode
)

// modeOf returns how the events of a request are sent.
func modeOf(header http.Header) (mode, *refusal) {
	types := header.Values("Content-Type")
	var mediaType string
	var parameters map[string]string
	if len(types) > 0 {
		var err error
		if mediaType, parameters, err = mime.ParseMediaType(types[0]); err != nil || len(types) > 1 {
			return 0, refuse(http.StatusUnsupportedMediaType, "the header Content-Type is not one media type")
		}
	}
	encoding := header.Get("Content-Encoding")
	charset := strings.ToLower(parameters["charset"])
	isEvent := strings.HasPrefix(mediaType, "application/cloudevents")
	switch {
	case encoding != "" && encoding != "identity":
		return 0, refuse(http.StatusUnsupportedMediaType, "the content encoding %s is not supported: send the body as it is", quoted(encoding))
	case isEvent && charset != "" && charset != "utf-8":
		return 0, refuse(http.StatusUnsupportedMediaType, "the charset %s is not supported: events are UTF-8", quoted(charset))
	case mediaType == event.ApplicationCloudEventsJSON:
		return structuredMode, nil
	case mediaType == event.ApplicationCloudEventsBatchJSON:
		return batchMode, nil
	case !isEvent && hasAttributes(header):
		return binaryMode, nil
	}
	return 0, refuse(http.StatusUnsupportedMediaType, "%s is no event: send %s, %s, or the attributes as headers that begin with ce-",
		quoted(mediaType), event.ApplicationCloudEventsJSON, event.ApplicationCloudEventsBatchJSON)
}

const attributePrefix = "Ce-"

func hasAttributes(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, attributePrefix) {
			return true
		}
	}
	return false
}

// decode returns the events of a body.
func decode(r *http.Request, m mode, body []byte) ([]*received, *refusal) {
	switch m {
	case structuredMode:
		return one(decodeStructured(body))
	case batchMode:
		return decodeBatch(body)
	case binaryMode:
	}
	return one(decodeBinary(r, body))
}

func one(attributes *event.Event, data member, err error) ([]*received, *refusal) {
	e := &received{}
	if refused := e.set(attributes, data, err); refused != nil {
		return nil, refused
	}
	return []*received{e}, nil
}

// decodeBatch decodes no more than so many events as are allowed.
func decodeBatch(body []byte) (all []*received, refused *refusal) {
	texts, refused := elements(body)
	if refused != nil {
		return nil, refused
	}
	for i, text := range texts {
		e := &received{index: i, batched: true}
		attributes, data, err := decodeStructured(text)
		if refused := e.set(attributes, data, err); refused != nil {
			return nil, refused.within(e)
		}
		all = append(all, e)
	}
	return all, nil
}

// elements returns the texts of the events of a batch.
func elements(body []byte) (all [][]byte, _ *refusal) {
	r := rawjson.NewReader(body)
	for more := r.FirstElement(); more; more = r.NextElement() {
		if len(all) == MaxBatch {
			return nil, refuse(http.StatusRequestEntityTooLarge, "the batch has more than %d events: send smaller ones", MaxBatch)
		}
		all = append(all, r.Raw())
	}
	switch err := r.End(); {
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "the batch is not an array in JSON: %s", shown(err))
	case len(all) == 0:
		return nil, refuse(http.StatusBadRequest, "the batch has no events")
	}
	return all, nil
}

// member is the member of an event in JSON format that has its data; the zero value is none.
type member struct {
	name  string
	value []byte // JSON
}

var errNoForm = errors.New("it has no form in JSON: data that is not JSON needs a datacontenttype that states so, and attributes are UTF-8")

// set checks an event that was decoded.
func (e *received) set(attributes *event.Event, data member, err error) *refusal {
	if err == nil {
		err = attributes.Validate()
	}
	if err == nil {
		e.Event = *attributes
		e.json, err = json.Marshal(attributes)
	}
	if err == nil && data.name != "" {
		if rawjson.Valid(data.value, maxDepth) != nil { // else it could end, and have members of the event after it
			err = errNoForm
		}
		e.json = slices.Concat(e.json[:len(e.json)-1], []byte(`,"`+data.name+`":`), data.value, []byte("}"))
	}
	if err == nil && (!utf8.Valid(e.json) || rawjson.Valid(e.json, maxDepth) != nil) {
		err = errNoForm
	}
	switch {
	case err != nil:
		return refuse(http.StatusBadRequest, "this is not a valid CloudEvent: %s", shown(err))
	case len(e.json) > contract.MaxEvent:
		return refuse(http.StatusRequestEntityTooLarge, "the event has %d bytes in JSON, of %d that it may have: send a reference to the data instead", len(e.json), contract.MaxEvent)
	}
	return nil
}

func shown(err error) string { return sanitize.Line(sanitize.Truncate(err.Error(), maxShown)) }

// decodeBinary decodes an event whose attributes are headers.
func decodeBinary(r *http.Request, body []byte) (*event.Event, member, error) {
	header := http.Header{}
	for name, values := range r.Header {
		attribute, is := strings.CutPrefix(name, attributePrefix)
		switch {
		case !is:
			continue
		case len(values) != 1:
			return nil, member{}, errors.New("the header " + quoted(name) + " is there more than once")
		}
		if err := checkName(strings.ToLower(attribute)); err != nil {
			return nil, member{}, err
		}
		header.Set(name, attributeOf(values[0]))
	}
	if got := header.Get("Ce-Specversion"); got != event.CloudEventsVersionV1 {
		return nil, member{}, errVersion(got)
	}
	contentType := r.Header.Get("Content-Type")
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	e, err := cehttp.NewEventFromHTTPRequest(&http.Request{Header: header, Body: http.NoBody})
	if err == nil && header.Get("Ce-Dataschema") != "" && e.DataSchema() == "" {
		err = errNoURI
	}
	return e, dataOf(contentType, body), err
}

// attributeOf returns the attribute that a header has: in quotes, as older senders wrote it, and
// percent-encoded, see section 3.1.3.2 of the HTTP binding of CloudEvents. The SDK does neither, as a sender
// or as a receiver, so that what is not an encoding is the attribute itself.
func attributeOf(value string) string {
	if inner, is := strings.CutPrefix(value, `"`); is && strings.HasSuffix(inner, `"`) {
		value = backslashed.ReplaceAllString(inner[:len(inner)-1], "$1")
	}
	if decoded, err := url.PathUnescape(value); err == nil {
		return decoded
	}
	return value
}

var backslashed = regexp.MustCompile(`\\(.)`)

// errNoURI is returned for what the SDK leaves out.
var errNoURI = errors.New("dataschema: is not a URI")

// dataOf returns the member for a body.
func dataOf(contentType string, body []byte) member {
	mediaType, _, _ := mime.ParseMediaType(contentType)
	switch {
	case len(body) == 0:
		return member{}
	case !utf8.Valid(body):
		text, _ := json.Marshal(body) // cannot fail
		return member{dataBase64, text}
	case mediaType == "", mediaType == event.ApplicationJSON, mediaType == event.TextJSON, strings.HasSuffix(mediaType, "+json"):
		return member{"data", body}
	}
	return member{"data", rawjson.AppendString(nil, string(body))}
}

func errVersion(got string) error {
	return errors.New("specversion: " + quoted(got) + " is not supported: it must be " + event.CloudEventsVersionV1)
}

// checkName returns an error if the name of an attribute is not one.
func checkName(name string) error {
	if name == "" || strings.ContainsFunc(name, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }) {
		return errors.New(quoted(name) + " is no name of an attribute: lower case letters and digits")
	}
	return nil
}

// decodeStructured decodes an event in JSON format.
func decodeStructured(text []byte) (*event.Event, member, error) {
	members, err := membersOf(text)
	if err != nil {
		return nil, member{}, err
	}
	data, err := takeData(members)
	if err != nil {
		return nil, member{}, err
	}
	version := ""
	if err := json.Unmarshal(members["specversion"], &version); err != nil || version != event.CloudEventsVersionV1 {
		return nil, member{}, errVersion(version)
	}
	delete(members, "specversion")
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("specversion").String(version) // first: the SDK checks less of what comes before it
		for name, value := range members {
			w.Name(name).Raw(value)
		}
	})
	e := &event.Event{}
	err = e.UnmarshalJSON(w.Bytes())
	if _, has := members["dataschema"]; err == nil && has && e.DataSchema() == "" {
		err = errNoURI
	}
	return e, data, err
}

// membersOf returns the members of an event by their names. Those that are null are as if they were not
// there, but data.
func membersOf(text []byte) (map[string][]byte, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8")
	}
	if err := rawjson.Valid(text, maxDepth); err != nil {
		return nil, err
	}
	all, err := rawjson.Members(text)
	if err != nil {
		return nil, err
	}
	members := map[string][]byte{}
	for _, m := range all {
		if _, twice := members[m.Name]; twice {
			return nil, errors.New("the attribute " + quoted(m.Name) + " is there more than once")
		}
		if err := checkName(m.Name); err != nil && m.Name != dataBase64 {
			return nil, err
		}
		members[m.Name] = m.Value
	}
	for name, value := range members {
		if name != "data" && string(value) == "null" {
			delete(members, name)
		}
	}
	return members, nil
}

const dataBase64 = "data_base64"

// takeData takes the data out of the members of an event.
func takeData(members map[string][]byte) (data member, err error) {
	value, has := members["data"]
	encoded, isBinary := members[dataBase64]
	delete(members, "data")
	delete(members, dataBase64)
	switch {
	case has && isBinary:
		return data, errors.New("it has data and data_base64")
	case has:
		return member{"data", value}, nil
	case !isBinary:
		return data, nil
	}
	var decoded []byte
	if err := json.Unmarshal(encoded, &decoded); err != nil || encoded[0] != '"' {
		return data, errors.New("data_base64: is not base64 in a string")
	}
	return member{dataBase64, encoded}, nil
}
