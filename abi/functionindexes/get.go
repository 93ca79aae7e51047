package functionindexes

import (
	"cmp"
	"math"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/message"
)

// This file has the messages of [Import].

// Call is the message of [Import]. The reply is a [Reply].
type Call struct {
	Index     string
	Key       string
	Namespace string // "" means the primary's, or all where the plugin may read them
}

// Reply is the reply to a [Call], ordered by namespace and name.
type Reply struct {
	Items []Item
}

// Item is an object that has the key.
type Item struct {
	Namespace string
	Name      string
	Value     []byte // JSON; nil for none
}

// EncodeCall returns the message of [Import].
func EncodeCall(c *Call) []byte { return message.Encode(128, c.fields) }

// DecodeCall decodes and checks the message of [Import]. The host returns [abi.CodeInvalid] to the guest if there is an
// error.
func DecodeCall(data []byte) (*Call, error) {
	c := &Call{}
	return message.Checked(c, abi.DecodeCall(data, c.fields), c.check)
}

// EncodeReply returns the text of a reply.
func EncodeReply(r *Reply) []byte { return message.Encode(256, r.fields) }

// DecodeReply decodes a reply.
func DecodeReply(data []byte) (*Reply, error) {
	r := &Reply{}
	return message.Checked(r, message.Decode(data, r.fields), nil)
}

func (c *Call) fields(f *message.Fields) {
	f.Required("index", &c.Index)
	f.Required("key", &c.Key)
	f.Text("namespace", &c.Namespace)
}

func (r *Reply) fields(f *message.Fields) {
	message.Objects(f, "items", math.MaxInt, &r.Items, (*Item).fields)
}

func (i *Item) fields(f *message.Fields) {
	f.Text("namespace", &i.Namespace)
	f.Required("name", &i.Name)
	f.Raw("value", &i.Value)
}

func (c *Call) check() error {
	return cmp.Or(
		abi.CheckName("index", c.Index),
		checkKey(c.Key),
		message.CheckLength("namespace", len(c.Namespace), abi.MaxName),
	)
}
