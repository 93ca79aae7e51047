package abi

import (
	"strconv"

	"github.com/thole-dev/thole/abi/rawjson"
)

// DecodeGetCall reads the message of the capability get, strictly; an error
// is answered with [CodeInvalid].
func DecodeGetCall(data []byte) (*GetCall, error) {
	r, err := strictCall(data)
	if err != nil {
		return nil, err
	}
	c := &GetCall{Ref: readRef(r)}
	if err := r.End(); err != nil {
		return nil, err
	}
	if err := c.Ref.check(); err != nil {
		return nil, err
	}
	return c, nil
}

// DecodeListCall reads the message of the capability list, strictly; an error
// is answered with [CodeInvalid].
func DecodeListCall(data []byte) (*ListCall, error) {
	r, err := strictCall(data)
	if err != nil {
		return nil, err
	}
	c := &ListCall{}
	r.Object(func(field string) {
		switch field {
		case "apiVersion":
			c.APIVersion = r.String()
		case "kind":
			c.Kind = r.String()
		case "namespace":
			c.Namespace = r.String()
		case "labelSelector":
			c.LabelSelector = r.String()
		default:
			r.Unknown(field, "apiVersion", "kind", "namespace", "labelSelector")
		}
	})
	if err := r.End(); err != nil {
		return nil, err
	}
	if err := firstOf(Kind{c.APIVersion, c.Kind}.check(), tooLong("namespace", len(c.Namespace), MaxName)); err != nil {
		return nil, err
	}
	return c, nil
}

// strictCall returns a reader of a capability call's message.
func strictCall(data []byte) (*rawjson.Reader, error) {
	if len(data) > MaxCall {
		return nil, &rawjson.Error{Offset: MaxCall, Message: "longer than " + strconv.Itoa(MaxCall) + " bytes"}
	}
	return strict(data)
}

// DecodeListReply reads the reply to a [ListCall]. It ignores what it does not
// know; the items alias data.
func DecodeListReply(data []byte) (*ListReply, error) {
	r := rawjson.NewReader(data)
	reply := &ListReply{}
	r.Object(func(field string) {
		if field == "items" {
			reply.Items = nil
			r.Array(func(int) { reply.Items = append(reply.Items, r.Raw()) })
		}
	})
	if err := r.End(); err != nil {
		return nil, err
	}
	return reply, nil
}
