package rights

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/thole-dev/thole/abi"
)

// Account is a service account. The zero value is none.
type Account struct{ Namespace, Name string }

// ParseAccount reads NAMESPACE/NAME.
func ParseAccount(text string) (Account, error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found || !abi.ValidName(namespace) || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return Account{}, errors.New("must be a service account as NAMESPACE/NAME")
	}
	return Account{namespace, name}, nil
}

func (a Account) String() string { return a.Namespace + "/" + a.Name }

// User returns the name of the account as a user of the API server.
func (a Account) User() string { return "system:serviceaccount:" + a.Namespace + ":" + a.Name }

// Groups returns the groups that the API server gives to each request of the account.
func (a Account) Groups() []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + a.Namespace, "system:authenticated"}
}
