// Package kube has typed clients for the few built-in kinds that a host itself reads and writes. The clientset of
// client-go links the types and clients of all API groups, which were a third of the program.
package kube

import (
	"context"
	"errors"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Clients send requests as one user. Functions take a namespace.
type Clients struct {
	Secrets         func(namespace string) Secrets
	ServiceAccounts func(namespace string) Getter[*corev1.ServiceAccount]
	Events          func(namespace string) Events
	Leases          func(namespace string) Leases
	TokenReviews    Creator[*authenticationv1.TokenReview]
	AccessReviews   AccessReviews
}

// AccessReviews are the kinds of authorization.k8s.io by which the API server is asked for rights.
type AccessReviews struct {
	Subject Creator[*authorizationv1.SubjectAccessReview]
	Self    Creator[*authorizationv1.SelfSubjectAccessReview]
	Local   func(namespace string) Creator[*authorizationv1.LocalSubjectAccessReview]
}

// Getter gets objects of a kind by their names.
type Getter[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// Creator creates objects of a kind.
type Creator[T any] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
}

// Secrets are the Secrets of a namespace.
type Secrets interface {
	Getter[*corev1.Secret]
	Creator[*corev1.Secret]
	Update(ctx context.Context, object *corev1.Secret, options metav1.UpdateOptions) (*corev1.Secret, error)
}

// Events are the Events of a namespace.
type Events interface {
	Creator[*corev1.Event]
	Update(ctx context.Context, object *corev1.Event, options metav1.UpdateOptions) (*corev1.Event, error)
	Patch(ctx context.Context, name string, patchType types.PatchType, patch []byte, options metav1.PatchOptions,
		subresources ...string) (*corev1.Event, error)
}

// Leases are the Leases of a namespace.
type Leases interface {
	Getter[*coordinationv1.Lease]
	Creator[*coordinationv1.Lease]
	List(ctx context.Context, options metav1.ListOptions) (*coordinationv1.LeaseList, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	Update(ctx context.Context, object *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error)
	Patch(ctx context.Context, name string, patchType types.PatchType, patch []byte, options metav1.PatchOptions,
		subresources ...string) (*coordinationv1.Lease, error)
}

// New returns clients that share their connections and the rate limit of the configuration.
func New(config *rest.Config) (*Clients, error) {
	if config.RateLimiter == nil && config.QPS > 0 {
		config = rest.CopyConfig(config)
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, config.Burst)
	}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client := func(path string, version schema.GroupVersion) rest.Interface {
		c := rest.CopyConfig(config)
		c.APIPath, c.GroupVersion, c.NegotiatedSerializer = path, &version, Codecs
		c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
		r, failed := rest.RESTClientForConfigAndClient(c, transport)
		err = errors.Join(err, failed)
		return r
	}
	core, coordination := client("/api", corev1.SchemeGroupVersion), client("/apis", coordinationv1.SchemeGroupVersion)
	authentication := client("/apis", authenticationv1.SchemeGroupVersion)
	authorization := client("/apis", authorizationv1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return &Clients{
		Secrets: func(ns string) Secrets {
			return gentype.NewClient("secrets", core, parameters, ns, empty[corev1.Secret])
		},
		ServiceAccounts: func(ns string) Getter[*corev1.ServiceAccount] {
			return gentype.NewClient("serviceaccounts", core, parameters, ns, empty[corev1.ServiceAccount])
		},
		Events: func(ns string) Events {
			return gentype.NewClient("events", core, parameters, ns, empty[corev1.Event])
		},
		Leases: func(ns string) Leases {
			return gentype.NewClientWithList("leases", coordination, parameters, ns,
				empty[coordinationv1.Lease], empty[coordinationv1.LeaseList])
		},
		TokenReviews: gentype.NewClient("tokenreviews", authentication, parameters, "", empty[authenticationv1.TokenReview]),
		AccessReviews: AccessReviews{
			Subject: gentype.NewClient("subjectaccessreviews", authorization, parameters, "",
				empty[authorizationv1.SubjectAccessReview]),
			Self: gentype.NewClient("selfsubjectaccessreviews", authorization, parameters, "",
				empty[authorizationv1.SelfSubjectAccessReview]),
			Local: func(ns string) Creator[*authorizationv1.LocalSubjectAccessReview] {
				return gentype.NewClient("localsubjectaccessreviews", authorization, parameters, ns,
					empty[authorizationv1.LocalSubjectAccessReview])
			},
		},
	}, nil
}

func empty[T any]() *T { return new(T) }

// Codecs decode the Status of an error and the kinds of [Clients], from what the API server sends; parameters encodes the
// options of requests.
var Codecs, parameters = newCodecs()

func newCodecs() (runtime.NegotiatedSerializer, runtime.ParameterCodec) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Secret{}, &corev1.ServiceAccount{}, &corev1.Event{})
	scheme.AddKnownTypes(coordinationv1.SchemeGroupVersion, &coordinationv1.Lease{}, &coordinationv1.LeaseList{})
	scheme.AddKnownTypes(authenticationv1.SchemeGroupVersion, &authenticationv1.TokenReview{})
	scheme.AddKnownTypes(authorizationv1.SchemeGroupVersion, &authorizationv1.SubjectAccessReview{},
		&authorizationv1.SelfSubjectAccessReview{}, &authorizationv1.LocalSubjectAccessReview{})
	for _, version := range scheme.PrioritizedVersionsAllGroups() {
		metav1.AddToGroupVersion(scheme, version) // the options, and a Status
	}
	return serializer.NewCodecFactory(scheme).WithoutConversion(), runtime.NewParameterCodec(scheme)
}
