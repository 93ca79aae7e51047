package abi

import (
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// A reply to a [ListCall] has no other bytes than ListReplyOpen, the objects with
// ListReplySeparator between two of them, and what [ListReplyClose] returns. So a host
// can write it piece by piece, and has its length before.
const (
	ListReplyOpen      = `{"items":[`
	ListReplySeparator = `,`
)

// ListReplyClose returns the end of a reply, with the continue of the next one, "" if
// there is none.
func ListReplyClose(next string) string {
	const end, member = `]}`, `],"continue":`
	if next == "" {
		return end
	}
	return string(append(rawjson.AppendString([]byte(member), next), end[1]))
}

// EncodeListReply returns the reply to a [ListCall].
func EncodeListReply(reply *ListReply) []byte {
	closing := ListReplyClose(reply.Continue)
	size := len(ListReplyOpen) + len(closing)
	for _, item := range reply.Items {
		size += len(item) + len(ListReplySeparator)
	}
	text := append(make([]byte, 0, size), ListReplyOpen...)
	for i, item := range reply.Items {
		if i > 0 {
			text = append(text, ListReplySeparator...)
		}
		text = append(text, item...)
	}
	return append(text, closing...)
}

// DecodeListReply decodes the reply to a [ListCall].
func DecodeListReply(data []byte) (*ListReply, error) {
	r := rawjson.NewReader(data)
	reply := &ListReply{}
	r.Object(func(field string) {
		switch field {
		case "items":
			reply.Items = nil
			r.Array(func(int) { reply.Items = append(reply.Items, r.Raw()) })
		case "continue":
			reply.Continue = r.String()
		}
	})
	return message.Checked(reply, r.End(), nil)
}
