package effect

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// This file holds the client: requests are bytes, replies are parsed into
// object.Object.

// client sends requests as one plugin. Its errors are those of the API server
// (apierrors.APIStatus) or of the network.
type client struct {
	rest   rest.Interface
	dryRun bool // writes are not stored
}

// maxWarnings bounds how many texts of warnings are remembered.
const maxWarnings = 256

// newClient copies the host's configuration and replaces everything that must
// be the plugin's own. client-go shares the connections of clients with the
// same TLS configuration.
func newClient(c *Config) (client, error) {
	config := rest.CopyConfig(c.REST)
	config.UserAgent = userAgent(c)
	config.RateLimiter, config.QPS = nil, -1 // unlimited: see Performer.mayWrite
	config.Timeout = c.Timeout
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = kube.Codecs // for the Status of an error; all else is bytes
	config.WarningHandlerWithContext = warnings{c.Logger, lru.New(maxWarnings)}
	if c.Account != (rights.Account{}) {
		// Nothing but the user name: the API server adds the groups of a service account, and
		// allows constrained impersonation (KEP-5284) of it only without others. Those that
		// the host may act with itself must not become the plugin's.
		config.Impersonate = rest.ImpersonationConfig{UserName: c.Account.User()}
	}
	if c.Lease != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return guard{next, c.Lease} })
	}
	r, err := rest.UnversionedRESTClientFor(config)
	return client{rest: r, dryRun: c.DryRun}, err
}

// userAgent returns what the audit log of the API server shows beside the account.
func userAgent(c *Config) string {
	agent := "thole/" + c.Version + " plugin/" + c.Plugin
	if c.Digest != "" {
		agent += " revision/" + c.Digest[:min(len(c.Digest), 12)]
	}
	return agent
}

// patch is one PATCH request, or the POST request that creates an object.
type patch struct {
	patchType types.PatchType
	create    bool // by POST, whatever the type
	manager   string
	force     bool // only of [types.ApplyPatchType]
	status    bool // of the subresource /status
	unchecked bool // without warnings about fields that the schema does not have
	body      []byte

	// For the limits of bytes (quota.go).
	before  *object.Object // nil for a creation
	growth  int            // about how many bytes it adds to the object
	frees   bool           // it gives up what is stored
	reports bool           // it reports that a limit is reached
}

// subresource returns the name of the subresource that is patched, "" for the object.
func (p patch) subresource() string {
	if p.status {
		return rights.Status
	}
	return ""
}

// patch sends p and returns the object that it led to.
func (c client) patch(ctx context.Context, r object.Resource, key object.Key, p patch) (*object.Object, error) {
	path := r.Path(key)
	if p.status {
		path = append(path, "status")
	}
	request := c.rest.Patch(p.patchType).AbsPath(path...)
	if p.create { // fields that the schema does not have are refused, as an apply does it
		request = c.rest.Post().AbsPath(r.Collection(key.Namespace)...).Param("fieldValidation", metav1.FieldValidationStrict)
	}
	request.Param("fieldManager", p.manager).Body(p.body)
	if p.force {
		request.Param("force", "true")
	}
	if p.unchecked {
		request.Param("fieldValidation", metav1.FieldValidationIgnore)
	}
	if c.dryRun {
		request.Param("dryRun", metav1.DryRunAll)
	}
	reply, err := sendForObject(ctx, request, r.Kind)
	return reply, writeError(err)
}

// get reads an object from the API server, not from a cache.
func (c client) get(ctx context.Context, r object.Resource, key object.Key) (*object.Object, error) {
	return sendForObject(ctx, c.read(r, key), r.Kind)
}

// metadata reads an object's metadata, with managedFields.
func (c client) metadata(ctx context.Context, r object.Resource, key object.Key) (meta metav1.PartialObjectMetadata, err error) {
	raw, err := send(ctx, c.read(r, key).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"))
	if err == nil {
		err = json.Unmarshal(raw, &meta)
	}
	return meta, err
}

// listMetadata reads the metadata, with managedFields, of at most limit objects that
// a label selector selects, in one namespace or, if that is "", in all. next is a
// token for the objects that follow, "" if there are none.
func (c client) listMetadata(ctx context.Context, r object.Resource, namespace, selector, token string, limit int) (page []metav1.PartialObjectMetadata, next string, err error) {
	request := c.rest.Get().AbsPath(r.Collection(namespace)...).
		Param("labelSelector", selector).Param("limit", strconv.Itoa(limit)).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	if token != "" {
		request.Param("continue", token)
	}
	raw, err := send(ctx, request)
	if err != nil {
		return nil, "", err
	}
	var all metav1.PartialObjectMetadataList
	err = json.Unmarshal(raw, &all)
	return all.Items, all.Continue, err
}

func (c client) read(r object.Resource, key object.Key) *rest.Request {
	return c.rest.Get().AbsPath(r.Path(key)...)
}

// deleteOptions are those of one request.
type deleteOptions struct {
	uid         types.UID // another object of the name is not deleted
	version     string    // the only resourceVersion that is deleted, "" for any
	propagation metav1.DeletionPropagation
	grace       *int64 // in seconds; nil for the default of the kind
}

// delete deletes an object. Unless the options have another propagation, the garbage
// collector deletes its dependents afterwards. The reply is the object if it still exists, else
// a Status.
func (c client) delete(ctx context.Context, r object.Resource, key object.Key, o deleteOptions) ([]byte, error) {
	options := &metav1.DeleteOptions{
		Preconditions:      metav1.NewUIDPreconditions(string(o.uid)),
		PropagationPolicy:  new(cmp.Or(o.propagation, metav1.DeletePropagationBackground)),
		GracePeriodSeconds: o.grace,
	}
	if o.version != "" {
		options.Preconditions.ResourceVersion = &o.version
	}
	if c.dryRun { // the server ignores the query of a request with a body
		options.DryRun = []string{metav1.DryRunAll}
	}
	reply, err := send(ctx, c.rest.Delete().AbsPath(r.Path(key)...).Body(options))
	return reply, writeError(err)
}

func sendForObject(ctx context.Context, request *rest.Request, kind abi.Kind) (*object.Object, error) {
	raw, err := send(ctx, request)
	if err != nil {
		return nil, err
	}
	return object.Parse(raw, kind)
}

// send sends a request and returns the body of the reply. An error of the API
// server is an apierrors.APIStatus. Nothing is sent again here, where a worker
// would have to wait: see [Failure.Later].
func send(ctx context.Context, request *rest.Request) ([]byte, error) {
	result := request.MaxRetries(0).Do(ctx)
	if err := result.Error(); err != nil { // decodes the server's Status, which Raw does not
		return nil, err
	}
	return result.Raw()
}

// warnings logs the warnings of the API server, each text once.
type warnings struct {
	logger hclog.Logger
	logged *lru.Cache // of texts
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w warnings) HandleWarningHeaderWithContext(_ context.Context, code int, _, text string) {
	const miscellaneous = 299 // the code that Kubernetes uses
	if _, logged := w.logged.Get(text); logged || code != miscellaneous {
		return
	}
	w.logged.Add(text, nil)
	w.logger.Warn("the API server warned about a request of the plugin", "warning", text)
}
