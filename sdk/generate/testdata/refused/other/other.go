// Package other is not the author's to generate for.
package other

// Wide has a field of a type that others cannot name.
type Wide struct {
	Own secret `json:"own"`
}

// Embeds has fields that others cannot reach by its path.
type Embeds struct {
	secret
}

type secret struct {
	Word string `json:"word"`
}
