package abi

import (
	"cmp"

	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// This file is what a controller of built-in kinds does with its children beyond applying and deleting them.

// StatusOwner is who writes the conditions and the observedGeneration of a primary.
type StatusOwner string

// StatusOwnerGuest means that the whole status is the guest's: [Result.Status] may have
// conditions and observedGeneration, and [Result.Conditions] must be empty. The host writes
// nothing into the status, and tells failures by Events alone. The default, "", is the host.
const StatusOwnerGuest StatusOwner = "guest"

// Applied is where the host keeps which intents it has applied to the objects of kinds in
// [Controller.Owns].
type Applied string

// AppliedMemory means that the objects have no annotation of the host: after a restart, or when
// others have changed an object, it compares that and its managedFields with the intent instead,
// and applies the intent once more if they do not show that this would change nothing. The
// default, "", is the annotation thole.dev/applied.
const AppliedMemory Applied = "memory"

// Delete requests that an object is deleted.
type Delete struct {
	Ref
	Propagation Propagation // what becomes of its dependents; "" stands for PropagationBackground
	// GracePeriodSeconds is the time that the object has to end by itself: 0 for none, nil for
	// that of its kind.
	GracePeriodSeconds *int64
	ResourceVersion    string // a precondition: nothing is deleted if the object has another one; "" for any
	Group              string // of the intents that it belongs to, see [Group]; "" for none
}

// Propagation is what becomes of the dependents of an object that is deleted, as in
// metav1.DeletionPropagation.
type Propagation string

// The values of [Propagation].
const (
	PropagationBackground Propagation = "Background" // the garbage collector deletes them afterwards
	PropagationForeground Propagation = "Foreground" // they are deleted before the object
	PropagationOrphan     Propagation = "Orphan"     // they stay
)

// OwnedBy narrows a [ListCall].
type OwnedBy string

// OwnedBySelf stands for the objects whose controller is the primary of the run.
const OwnedBySelf OwnedBy = "self"

// Group says what a failure of one of its intents leads to. Intents of one group are performed
// in order, and the first that fails ends the group: those that follow are left out, and its
// Events. Other groups, and the status, go on.
type Group struct {
	Name string // a DNS label
	// Condition is the type of a condition that has the reason and message of a failure; ""
	// for none. The controller must own it. The host sets it to the bad status of its polarity,
	// and after a run in which the group has not failed to the good one, unless the result has it.
	Condition string
}

func (d *Delete) fields(f *message.Fields) {
	d.Ref.fields(f)
	f.Text("propagation", (*string)(&d.Propagation))
	f.Optional("gracePeriodSeconds", &d.GracePeriodSeconds)
	f.Text("resourceVersion", &d.ResourceVersion)
	f.Text("group", &d.Group)
}

func (g *Group) fields(f *message.Fields) {
	f.Required("name", &g.Name)
	f.Text("condition", &g.Condition)
}

// check refuses what [ListCall.OwnedBy] cannot be.
func (o OwnedBy) check() error {
	if o == "" || o == OwnedBySelf {
		return nil
	}
	return rawjson.NewError("ownedBy", rawjson.Quote(string(o))+" is not "+string(OwnedBySelf))
}

func (d Delete) check() error {
	if d.Propagation != "" && d.Propagation != PropagationBackground && d.Propagation != PropagationForeground && d.Propagation != PropagationOrphan {
		return rawjson.NewError("propagation", rawjson.Quote(string(d.Propagation))+" is not one of Background, Foreground, Orphan")
	}
	return cmp.Or(d.Ref.check(), message.CheckLength("resourceVersion", len(d.ResourceVersion), MaxName), checkGroup(d.Group))
}

// checkGroup checks the name of a group, which an intent need not have.
func checkGroup(name string) error {
	if name == "" {
		return nil
	}
	return CheckName("group", name)
}

func (g Group) check() error {
	if err := CheckName("name", g.Name); err != nil || g.Condition == "" {
		return err
	}
	return rawjson.Within("condition", checkConditionType(g.Condition))
}

// checkChildren checks the fields of a manifest that are about children.
func (c Controller) checkChildren() error {
	switch {
	case c.StatusOwner != "" && c.StatusOwner != StatusOwnerGuest:
		return rawjson.NewError("statusOwner", rawjson.Quote(string(c.StatusOwner))+" is not "+string(StatusOwnerGuest)+"; leave it out where the host writes conditions")
	case c.StatusOwner == StatusOwnerGuest && !c.Conditions.IsZero():
		return rawjson.NewError("conditions", "has no effect beside statusOwner "+rawjson.Quote(string(StatusOwnerGuest))+": the guest writes them in status")
	case c.StatusOwner == StatusOwnerGuest && c.For.MetadataOnly:
		return rawjson.NewError("statusOwner", "cannot be set beside for.metadataOnly: the host does not keep the status of the object")
	case c.WhileDeleting && c.Finalizer:
		return rawjson.NewError("whileDeleting", "has no effect beside finalizer, which makes runs come while the object is being deleted")
	}
	return c.checkApplied()
}

func (c Controller) checkApplied() error {
	switch {
	case c.Applied == "":
		return nil
	case c.Applied != AppliedMemory:
		return rawjson.NewError("applied", rawjson.Quote(string(c.Applied))+" is not "+string(AppliedMemory)+"; leave it out for the annotation")
	case len(c.Owns) == 0:
		return rawjson.NewError("applied", "has no effect without owns: it is about what the controller owns")
	}
	for _, owned := range c.Owns {
		if owned.MetadataOnly {
			return rawjson.NewError("applied", rawjson.Quote(string(AppliedMemory))+" cannot be used with metadataOnly of "+owned.Kind.String()+" in owns: the host compares what it has applied with the content")
		}
	}
	return nil
}

// checkPrune refuses a controller that would prune, but owns nothing: each result with prune would be refused.
func (c Controller) checkPrune() error {
	if !c.Prune || len(c.Owns) > 0 {
		return nil
	}
	return rawjson.NewError("prune", "has no effect without owns: list the kinds there whose objects shall be pruned")
}

// CheckFor returns an error if the result has a field that the manifest of the controller must allow, and does not.
func (out *Result) CheckFor(c *Controller) error {
	if out.Prune && !c.Prune {
		return rawjson.NewError("prune", "needs prune of the controller in the manifest")
	}
	return nil
}
