//go:build !wasip1

package guest

// Host has the capabilities that a run can call. Natively the test implements
// them. The codes are those of package abi.
type Host interface {
	// Get returns the object for the text of an [abi.GetCall].
	Get(call []byte) (reply []byte, code int64)
	// List returns the text of an [abi.ListReply] for that of an [abi.ListCall].
	List(call []byte) (reply []byte, code int64)
	// IndexGet returns the text of an [functionindexes.Reply] for that of an [functionindexes.Call].
	IndexGet(call []byte) (reply []byte, code int64)
	// HTTP returns the encoded reply to an encoded call of the capability http.
	HTTP(call []byte) (reply []byte, code int64)
	// Log writes a line to the log.
	Log(level int32, line []byte)
}

// exportIndex has nothing to do: tests call [GiveKeys].
func exportIndex() {}

// exportDaemon has nothing to do: tests call [Step].
func exportDaemon() {}

// exportScan has nothing to do: tests call [Scan].
func exportScan() {}

// These have nothing to do: tests call [Validate], [Mutate] and [Convert].
func exportValidate() {}
func exportMutate()   {}
func exportConvert()  {}
