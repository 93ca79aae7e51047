// Command shapes has types of every shape that a schema is made for. Each kind is one test.
package main

import (
	"encoding/json"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/clusterrole"
	"github.com/thole-dev/thole/sdk/kubernetes/clusterrolebinding"
	"github.com/thole-dev/thole/sdk/kubernetes/configmap"
	"github.com/thole-dev/thole/sdk/kubernetes/cronjob"
	"github.com/thole-dev/thole/sdk/kubernetes/daemonset"
	"github.com/thole-dev/thole/sdk/kubernetes/deployment"
	"github.com/thole-dev/thole/sdk/kubernetes/horizontalpodautoscaler"
	"github.com/thole-dev/thole/sdk/kubernetes/ingress"
	"github.com/thole-dev/thole/sdk/kubernetes/job"
	"github.com/thole-dev/thole/sdk/kubernetes/lease"
	"github.com/thole-dev/thole/sdk/kubernetes/namespace"
	"github.com/thole-dev/thole/sdk/kubernetes/networkpolicy"
	"github.com/thole-dev/thole/sdk/kubernetes/persistentvolumeclaim"
	"github.com/thole-dev/thole/sdk/kubernetes/pod"
	"github.com/thole-dev/thole/sdk/kubernetes/poddisruptionbudget"
	"github.com/thole-dev/thole/sdk/kubernetes/role"
	"github.com/thole-dev/thole/sdk/kubernetes/rolebinding"
	"github.com/thole-dev/thole/sdk/kubernetes/secret"
	"github.com/thole-dev/thole/sdk/kubernetes/service"
	"github.com/thole-dev/thole/sdk/kubernetes/serviceaccount"
	"github.com/thole-dev/thole/sdk/kubernetes/shared"
	"github.com/thole-dev/thole/sdk/kubernetes/statefulset"
)

func init() {
	sdk.Register(sdk.Controller[Whole, Empty]{Name: "whole", For: sdk.Kind{APIVersion: group + "v1", Kind: "Whole"}})
	sdk.Register(sdk.Controller[Parts, Parts]{Name: "parts", For: sdk.Kind{APIVersion: group + "v1", Kind: "Part"}})
	sdk.Register(sdk.Controller[pod.Spec, pod.Status]{Name: "foreign", For: sdk.Kind{APIVersion: group + "v1", Kind: "Foreign"}})
	sdk.Register(sdk.Controller[Containers, Empty]{Name: "containers", For: sdk.Kind{APIVersion: group + "v1", Kind: "Container"}})
	sdk.Register(sdk.Controller[Embedding, Refusing]{Name: "embedding", For: sdk.Kind{APIVersion: group + "v1", Kind: "Embedding"}})
	sdk.Register(sdk.Controller[Empty, Own]{Name: "own", For: sdk.Kind{APIVersion: group + "v1", Kind: "Own"}})
	sdk.Register(sdk.Controller[Empty, Bounded]{Name: "bounded", For: sdk.Kind{APIVersion: group + "v1", Kind: "Bounded"}})
	// The API server protects groups of the Kubernetes community.
	sdk.Register(sdk.Controller[Empty, Empty]{Name: "community", For: sdk.Kind{APIVersion: "shapes.k8s.io/v1", Kind: "Community"}})
}

const group = "shapes.example.com/"

// Whole has whole kinds of Kubernetes.
type Whole struct {
	ClusterRole             *clusterrole.ClusterRole                         `json:"clusterrole,omitempty"`
	ClusterRoleBinding      *clusterrolebinding.ClusterRoleBinding           `json:"clusterrolebinding,omitempty"`
	ConfigMap               *configmap.ConfigMap                             `json:"configmap,omitempty"`
	CronJob                 *cronjob.CronJob                                 `json:"cronjob,omitempty"`
	DaemonSet               *daemonset.DaemonSet                             `json:"daemonset,omitempty"`
	Deployment              *deployment.Deployment                           `json:"deployment,omitempty"`
	HorizontalPodAutoscaler *horizontalpodautoscaler.HorizontalPodAutoscaler `json:"horizontalpodautoscaler,omitempty"`
	Ingress                 *ingress.Ingress                                 `json:"ingress,omitempty"`
	Job                     *job.Job                                         `json:"job,omitempty"`
	Lease                   *lease.Lease                                     `json:"lease,omitempty"`
	Namespace               *namespace.Namespace                             `json:"namespace,omitempty"`
	NetworkPolicy           *networkpolicy.NetworkPolicy                     `json:"networkpolicy,omitempty"`
	PersistentVolumeClaim   *persistentvolumeclaim.PersistentVolumeClaim     `json:"persistentvolumeclaim,omitempty"`
	Pod                     *pod.Pod                                         `json:"pod,omitempty"`
	PodDisruptionBudget     *poddisruptionbudget.PodDisruptionBudget         `json:"poddisruptionbudget,omitempty"`
	Role                    *role.Role                                       `json:"role,omitempty"`
	RoleBinding             *rolebinding.RoleBinding                         `json:"rolebinding,omitempty"`
	Secret                  *secret.Secret                                   `json:"secret,omitempty"`
	Service                 *service.Service                                 `json:"service,omitempty"`
	ServiceAccount          *serviceaccount.ServiceAccount                   `json:"serviceaccount,omitempty"`
	StatefulSet             *statefulset.StatefulSet                         `json:"statefulset,omitempty"`
	// Pods are in a list, as are those of a StatefulSet.
	// +kubebuilder:validation:MaxItems=3
	Pods []pod.Pod `json:"pods,omitempty"`
}

// Parts has what specs take from the types of Kubernetes, with markers of other projects.
type Parts struct {
	Template pod.TemplateSpec `json:"template,omitzero"`
	// +listType=map
	// +listMapKey=name
	Containers []pod.Container `json:"containers,omitempty"`
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []shared.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// +listType=set
	References []shared.ObjectReference `json:"references,omitempty"`
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	Ports        []service.Port                                `json:"ports,omitempty"`
	Affinity     *pod.Affinity                                 `json:"affinity,omitempty"`
	Resources    pod.ResourceRequirements                      `json:"resources,omitzero"`
	Claim        persistentvolumeclaim.Spec                    `json:"claim,omitzero"`
	Rules        []role.PolicyRule                             `json:"rules,omitempty"`
	Subjects     []rolebinding.Subject                         `json:"subjects,omitempty"`
	Selector     *sdk.LabelSelector                            `json:"selector,omitempty"`
	Owners       []sdk.OwnerReference                          `json:"owners,omitempty"`
	Job          job.TemplateSpec                              `json:"job,omitzero"`
	Scaling      map[string]horizontalpodautoscaler.MetricSpec `json:"scaling,omitempty"`
	NodeSelector map[string]string                             `json:"nodeSelector,omitempty"`
	Conditions   []sdk.Condition                               `json:"conditions,omitempty"`
	// +listType=atomic
	History []sdk.Condition `json:"history,omitempty"`
}

// Containers has each type of the SDK by itself, as a pointer, in a list, a map and a map of lists.
type Containers struct {
	Time                  sdk.Time                         `json:"time,omitzero"`
	TimePointer           *sdk.Time                        `json:"timePointer,omitempty"`
	TimeList              []sdk.Time                       `json:"timeList,omitempty"`
	TimeMap               map[string]sdk.Time              `json:"timeMap,omitempty"`
	TimeLists             map[string][]*sdk.Time           `json:"timeLists,omitempty"`
	MicroTime             sdk.MicroTime                    `json:"microTime,omitzero"`
	MicroTimePointer      *sdk.MicroTime                   `json:"microTimePointer,omitempty"`
	MicroTimeList         []sdk.MicroTime                  `json:"microTimeList,omitempty"`
	MicroTimeMap          map[string]sdk.MicroTime         `json:"microTimeMap,omitempty"`
	MicroTimeLists        map[string][]*sdk.MicroTime      `json:"microTimeLists,omitempty"`
	Duration              sdk.Duration                     `json:"duration,omitzero"`
	DurationPointer       *sdk.Duration                    `json:"durationPointer,omitempty"`
	DurationList          []sdk.Duration                   `json:"durationList,omitempty"`
	DurationMap           map[string]sdk.Duration          `json:"durationMap,omitempty"`
	DurationLists         map[string][]*sdk.Duration       `json:"durationLists,omitempty"`
	Quantity              sdk.Quantity                     `json:"quantity,omitzero"`
	QuantityPointer       *sdk.Quantity                    `json:"quantityPointer,omitempty"`
	QuantityList          []sdk.Quantity                   `json:"quantityList,omitempty"`
	QuantityMap           map[string]sdk.Quantity          `json:"quantityMap,omitempty"`
	QuantityLists         map[string][]*sdk.Quantity       `json:"quantityLists,omitempty"`
	IntOrString           sdk.IntOrString                  `json:"intOrString,omitzero"`
	IntOrStringPointer    *sdk.IntOrString                 `json:"intOrStringPointer,omitempty"`
	IntOrStringList       []sdk.IntOrString                `json:"intOrStringList,omitempty"`
	IntOrStringMap        map[string]sdk.IntOrString       `json:"intOrStringMap,omitempty"`
	IntOrStringLists      map[string][]*sdk.IntOrString    `json:"intOrStringLists,omitempty"`
	Raw                   sdk.Raw                          `json:"raw,omitzero"`
	RawPointer            *sdk.Raw                         `json:"rawPointer,omitempty"`
	RawList               []sdk.Raw                        `json:"rawList,omitempty"`
	RawMap                map[string]sdk.Raw               `json:"rawMap,omitempty"`
	RawLists              map[string][]*sdk.Raw            `json:"rawLists,omitempty"`
	LabelSelector         sdk.LabelSelector                `json:"labelSelector,omitzero"`
	LabelSelectorPointer  *sdk.LabelSelector               `json:"labelSelectorPointer,omitempty"`
	LabelSelectorList     []sdk.LabelSelector              `json:"labelSelectorList,omitempty"`
	LabelSelectorMap      map[string]sdk.LabelSelector     `json:"labelSelectorMap,omitempty"`
	LabelSelectorLists    map[string][]*sdk.LabelSelector  `json:"labelSelectorLists,omitempty"`
	ObjectMeta            sdk.ObjectMeta                   `json:"objectMeta,omitzero"`
	ObjectMetaPointer     *sdk.ObjectMeta                  `json:"objectMetaPointer,omitempty"`
	ObjectMetaList        []sdk.ObjectMeta                 `json:"objectMetaList,omitempty"`
	ObjectMetaMap         map[string]sdk.ObjectMeta        `json:"objectMetaMap,omitempty"`
	ObjectMetaLists       map[string][]*sdk.ObjectMeta     `json:"objectMetaLists,omitempty"`
	OwnerReference        sdk.OwnerReference               `json:"ownerReference,omitzero"`
	OwnerReferencePointer *sdk.OwnerReference              `json:"ownerReferencePointer,omitempty"`
	OwnerReferenceList    []sdk.OwnerReference             `json:"ownerReferenceList,omitempty"`
	OwnerReferenceMap     map[string]sdk.OwnerReference    `json:"ownerReferenceMap,omitempty"`
	OwnerReferenceLists   map[string][]*sdk.OwnerReference `json:"ownerReferenceLists,omitempty"`
	Condition             sdk.Condition                    `json:"condition,omitzero"`
	ConditionPointer      *sdk.Condition                   `json:"conditionPointer,omitempty"`
	ConditionList         []sdk.Condition                  `json:"conditionList,omitempty"`
	ConditionMap          map[string]sdk.Condition         `json:"conditionMap,omitempty"`
	ConditionLists        map[string][]*sdk.Condition      `json:"conditionLists,omitempty"`
	TypeMeta              sdk.TypeMeta                     `json:"typeMeta,omitzero"`
	TypeMetaPointer       *sdk.TypeMeta                    `json:"typeMetaPointer,omitempty"`
	TypeMetaList          []sdk.TypeMeta                   `json:"typeMetaList,omitempty"`
	TypeMetaMap           map[string]sdk.TypeMeta          `json:"typeMetaMap,omitempty"`
	TypeMetaLists         map[string][]*sdk.TypeMeta       `json:"typeMetaLists,omitempty"`
	Bytes                 []byte                           `json:"bytes,omitempty"`
	Message               json.RawMessage                  `json:"message,omitempty"`
	Text                  Text                             `json:"text,omitempty"`
	Texts                 []Text                           `json:"texts,omitempty"`
	ByText                map[Text]Number                  `json:"byText,omitempty"`
	Matrix                [][]Number                       `json:"matrix,omitempty"`
	Fixed                 [3]Number                        `json:"fixed,omitzero"`
	// +kubebuilder:pruning:PreserveUnknownFields
	Open Inner `json:"open,omitzero"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:EmbeddedResource
	Object sdk.Raw `json:"object,omitempty"`
	// +kubebuilder:validation:XEmbeddedResource
	// +kubebuilder:validation:XPreserveUnknownFields
	Other *json.RawMessage `json:"other,omitempty"`
	// +kubebuilder:validation:items:XEmbeddedResource
	Objects []sdk.Raw `json:"objects,omitempty"`
	// +kubebuilder:validation:EmbeddedResource
	Pod *pod.Pod `json:"pod,omitempty"`
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Anything any `json:"anything,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +nullable
	Null *Number `json:"null"`
}

// Text is a string with rules.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z]*$`
// +kubebuilder:validation:Enum=a;b
type Text string

// Number is a number with a rule.
// +kubebuilder:validation:Maximum=10
type Number int32

// Inner is a part.
type Inner struct {
	Name string `json:"name,omitempty"`
}

// Embedding embeds with and without a tag, and by a pointer.
type Embedding struct {
	sdk.TypeMeta
	Inner
	*Deep `json:",inline"`
	Named `json:"named"`

	Unnamed Own `json:"unnamed,omitzero"`
}

// Deep is embedded, and embeds.
type Deep struct{ Deeper }

// Deeper is embedded twice.
type Deeper struct {
	// +kubebuilder:default=1
	Depth Number `json:"depth,omitempty"`
}

// Named is embedded with a name.
type Named struct {
	Value string `json:"value"`
}

// Refusing is a status with a rule that its default does not meet.
// +kubebuilder:validation:XValidation:rule="has(self.phase)"
type Refusing struct {
	Phase string `json:"phase"`
}

// Own has the members that the host writes, too.
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.ready`
type Own struct {
	ObservedGeneration int64           `json:"observedGeneration,omitempty"`
	Conditions         []sdk.Condition `json:"conditions"`
	Ready              int32           `json:"ready"`
}

// Bounded has an observedGeneration that cannot be negative.
type Bounded struct {
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Empty has no members.
type Empty struct{}

func main() {}
