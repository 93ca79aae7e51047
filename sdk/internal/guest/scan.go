package guest

import (
	"strconv"

	"github.com/thole-dev/thole/abi"
)

// ScanFunc is the function of a scan, with the author's types erased. An error is part of the result.
type ScanFunc func(Host, *abi.ScanRequest) (abi.Code, *abi.ScanResult)

// namedScan is a function, and whose it is.
type namedScan struct {
	controller, name string
	scan             ScanFunc
}

var scans []namedScan

// AddScan adds the function of a scan of a controller. A plugin that does not call it does not contain
// the code of scans.
func AddScan(controller, name string, scan ScanFunc) {
	scans = append(scans, namedScan{controller, name, scan})
	exportScan()
}

// Scan scans for the text of an [abi.ScanRequest] and returns the text of an [abi.ScanResult].
func Scan(h Host, request []byte) (abi.Code, []byte) {
	q, err := abi.DecodeScanRequest(request)
	if err != nil {
		return badScan("read request: " + err.Error())
	}
	for _, s := range scans {
		if s.controller == q.Controller && s.name == q.Scan {
			code, result := s.scan(h, q)
			return code, abi.EncodeScanResult(result)
		}
	}
	return badScan("the plugin has no scan " + strconv.Quote(q.Scan) + " of controller " + strconv.Quote(q.Controller))
}

// badScan is [badRequest] for a scan.
func badScan(message string) (abi.Code, []byte) {
	return abi.CodeRetry, abi.EncodeScanResult(&abi.ScanResult{Error: &abi.Failure{Reason: "BadRequest", Message: message}})
}
