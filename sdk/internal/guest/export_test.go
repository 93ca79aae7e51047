//go:build !wasip1

package guest

// Fresh replaces what is registered by nothing, for one test.
var Fresh = register
