package tholetest

import (
	"fmt"
	"math/rand/v2"
)

// RandomLoopback returns an address of 127.0.0.0/8 with any port, to listen on more than once. While nobody
// listens, its port is free, and on 127.0.0.1 any other listener or connection of the machine could get it.
func RandomLoopback() string {
	return fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
}
