package sdk

import "github.com/thole-dev/thole/abi/rawjson"

// readMeta reads the metadata of the primary without reflection. It is no
// method: structs that embed [ObjectMeta] would inherit it as their own codec.
func readMeta(r *rawjson.Reader, m *ObjectMeta) {
	r.Object(func(field string) {
		if r.Null() {
			return
		}
		switch field {
		case "name":
			m.Name = r.String()
		case "namespace":
			m.Namespace = r.String()
		case "uid":
			m.UID = r.String()
		case "resourceVersion":
			m.ResourceVersion = r.String()
		case "generation":
			m.Generation = r.Int()
		case "creationTimestamp":
			m.CreationTimestamp = Time(r.String())
		case "deletionTimestamp":
			m.DeletionTimestamp = Time(r.String())
		case "labels":
			m.Labels = readMap(r)
		case "annotations":
			m.Annotations = readMap(r)
		case "finalizers":
			r.Array(func(int) { m.Finalizers = append(m.Finalizers, r.String()) })
		case "ownerReferences":
			r.Array(func(int) { m.OwnerReferences = append(m.OwnerReferences, readOwner(r)) })
		}
	})
}

func readMap(r *rawjson.Reader) map[string]string {
	m := map[string]string{}
	r.Object(func(name string) { m[name] = r.String() })
	return m
}

func readOwner(r *rawjson.Reader) (owner OwnerReference) {
	r.Object(func(field string) {
		if r.Null() {
			return
		}
		switch field {
		case "apiVersion":
			owner.APIVersion = r.String()
		case "kind":
			owner.Kind = r.String()
		case "name":
			owner.Name = r.String()
		case "uid":
			owner.UID = r.String()
		case "controller":
			owner.Controller = r.Bool()
		case "blockOwnerDeletion":
			owner.BlockOwnerDeletion = r.Bool()
		}
	})
	return owner
}
