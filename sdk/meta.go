package sdk

import "github.com/thole-dev/thole/sdk/codec"

// What follows reads the types of the SDK without reflection. These are no
// methods: structs that embed one of the types would inherit them as their own
// codec.

func readMeta(r *Reader, m *ObjectMeta) {
	for more := r.FirstMember(); more; more = r.NextMember() {
		switch r.Name() {
		case "name":
			codec.ReadString(r, &m.Name)
		case "namespace":
			codec.ReadString(r, &m.Namespace)
		case "uid":
			codec.ReadString(r, &m.UID)
		case "resourceVersion":
			codec.ReadString(r, &m.ResourceVersion)
		case "generation":
			codec.ReadInt(r, &m.Generation)
		case "creationTimestamp":
			codec.ReadString(r, (*string)(&m.CreationTimestamp))
		case "deletionTimestamp":
			codec.ReadString(r, (*string)(&m.DeletionTimestamp))
		case "labels":
			codec.ReadStringMap(r, &m.Labels)
		case "annotations":
			codec.ReadStringMap(r, &m.Annotations)
		case "finalizers":
			codec.ReadStrings(r, &m.Finalizers)
		case "ownerReferences":
			readOwners(r, &m.OwnerReferences)
		}
	}
}

func readOwners(r *Reader, owners *[]OwnerReference) {
	if r.Null() {
		*owners = nil
		return
	}
	list := (*owners)[:0]
	for more := r.FirstElement(); more; more = r.NextElement() {
		list = codec.Extend(list)
		readOwner(r, &list[len(list)-1])
	}
	*owners = codec.Filled(list)
}

func readOwner(r *Reader, owner *OwnerReference) {
	for more := r.FirstMember(); more; more = r.NextMember() {
		switch r.Name() {
		case "apiVersion":
			codec.ReadString(r, &owner.APIVersion)
		case "kind":
			codec.ReadString(r, &owner.Kind)
		case "name":
			codec.ReadString(r, &owner.Name)
		case "uid":
			codec.ReadString(r, &owner.UID)
		case "controller":
			codec.ReadBool(r, &owner.Controller)
		case "blockOwnerDeletion":
			codec.ReadBool(r, &owner.BlockOwnerDeletion)
		}
	}
}

func readCondition(r *Reader, c *Condition) {
	for more := r.FirstMember(); more; more = r.NextMember() {
		switch r.Name() {
		case "type":
			codec.ReadString(r, &c.Type)
		case "status":
			codec.ReadString(r, &c.Status)
		case "reason":
			codec.ReadString(r, &c.Reason)
		case "message":
			codec.ReadString(r, &c.Message)
		case "lastTransitionTime":
			codec.ReadString(r, (*string)(&c.LastTransitionTime))
		case "observedGeneration":
			codec.ReadInt(r, &c.ObservedGeneration)
		}
	}
}
