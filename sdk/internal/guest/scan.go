package guest

import (
	"strconv"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/scans"
)

// ScanFunc is the function of a scan, with the author's types erased. An error is part of the result.
type ScanFunc func(Host, *scans.Request) (abi.Code, *scans.Result)

// namedScan is a function, and whose it is.
type namedScan struct {
	controller, name string
	scan             ScanFunc
}

var allScans []namedScan

// AddScan adds the function of a scan of a controller. A plugin that does not call it does not contain
// the code of scans.
func AddScan(controller, name string, scan ScanFunc) {
	allScans = append(allScans, namedScan{controller, name, scan})
	exportScan()
}

// Scan scans for the text of an [scans.Request] and returns the text of an [scans.Result].
func Scan(h Host, request []byte) (abi.Code, []byte) {
	q, err := scans.DecodeRequest(request)
	if err != nil {
		return badScan("read request: " + err.Error())
	}
	for _, s := range allScans {
		if s.controller == q.Controller && s.name == q.Scan {
			code, result := s.scan(h, q)
			return code, scans.EncodeResult(result)
		}
	}
	return badScan("the plugin has no scan " + strconv.Quote(q.Scan) + " of controller " + strconv.Quote(q.Controller))
}

// badScan is [badRequest] for a scan.
func badScan(message string) (abi.Code, []byte) {
	return abi.CodeRetry, scans.EncodeResult(&scans.Result{Error: &abi.Failure{Reason: "BadRequest", Message: message}})
}
