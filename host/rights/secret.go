package rights

// SecretRef names a Secret, in a policy.
type SecretRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// secretGrants returns what is needed to read Secrets with the credentials of other systems.
func secretGrants(refs []SecretRef) (grants []grant) {
	for _, ref := range refs {
		at := target{namespace: ref.Namespace, resource: "secrets", name: ref.Name}
		grants = append(grants, grant{target: at, verb: Get, use: "send the credential of another system", reason: sent})
	}
	return grants
}
