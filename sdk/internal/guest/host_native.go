//go:build !wasip1

package guest

// Host is what a run can ask while it goes on. Natively it is whatever the
// test puts there; codes are those of package abi.
type Host interface {
	// Get answers the text of an [abi.GetCall] with an object.
	Get(call []byte) (reply []byte, code int64)
	// List answers the text of an [abi.ListCall] with that of an
	// [abi.ListReply].
	List(call []byte) (reply []byte, code int64)
	// Log takes a line.
	Log(level int32, line []byte)
}
