package wasmtest

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/cloudevents"
	"github.com/thole-dev/thole/abi/timers"
)

// sections checks the sections of the capabilities that the SDK has, as their hosts do.
func sections() map[string]func(*abi.Controller, []byte) error {
	return map[string]func(*abi.Controller, []byte) error{
		cloudevents.Name: func(_ *abi.Controller, section []byte) error {
			_, err := cloudevents.Decode(section)
			return err
		},
		timers.Name: func(_ *abi.Controller, section []byte) error {
			_, err := timers.Decode(section)
			return err
		},
	}
}
