package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

var (
	podResource   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	eventResource = schema.GroupVersionResource{Version: "v1", Resource: "events"}
)

// watch turns every change of the sample's kind, of pods that it controls and
// of Events about it, in the sample's namespace into facts, until ctx ends.
func (d *demo) watch(ctx context.Context) error {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(d.client, 0, d.sample.GetNamespace(), nil)
	var synced []cache.InformerSynced
	for _, r := range []schema.GroupVersionResource{d.resource, podResource, eventResource} {
		registration, err := factory.ForResource(r).Informer().AddEventHandler(d.handler())
		if err != nil {
			return err
		}
		synced = append(synced, registration.HasSynced)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return context.Cause(ctx)
	}
	return nil
}

func (d *demo) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { d.changed(nil, o) },
		UpdateFunc: func(from, to any) { d.changed(from, to) },
		DeleteFunc: func(o any) { d.changed(o, nil) },
	}
}

func (d *demo) changed(from, to any) {
	c := &change{asObject(from), asObject(to)}
	if c.old != nil && d.concerns(c.old) || c.new != nil && d.concerns(c.new) {
		d.notice(fact{change: c})
	}
}

// concerns leaves out the pods of others, and Events about other kinds.
func (d *demo) concerns(o *object) bool {
	switch kind := d.sample.GetKind(); o.GetKind() {
	case kind:
		return true
	case "Event":
		return field(o, "involvedObject", "kind") == kind
	default:
		owner := metav1.GetControllerOf(o)
		return owner != nil && owner.Kind == kind
	}
}

func asObject(v any) *object {
	if unknown, ok := v.(cache.DeletedFinalStateUnknown); ok {
		v = unknown.Obj
	}
	o, _ := v.(*object)
	return o
}
