// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package pod has the kind v1 Pod.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package pod

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/persistentvolumeclaim"
	"github.com/thole-dev/thole/sdk/kubernetes/shared"
)

// Kind is v1 Pod.
var Kind = sdk.Kind{APIVersion: "v1", Kind: "Pod"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) Pod {
	return Pod{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// Pod is that of the Kubernetes API.
//
//thole:compact
type Pod struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     Spec           `json:"spec,omitzero"`
	Status   Status         `json:"status,omitzero"`
}

// Spec is PodSpec of the Kubernetes API.
type Spec struct {
	// +listType=map
	// +listMapKey=name
	Volumes []Volume `json:"volumes,omitempty"`
	// +listType=map
	// +listMapKey=name
	InitContainers []Container `json:"initContainers,omitempty"`
	// +required
	// +listType=map
	// +listMapKey=name
	Containers []Container `json:"containers,omitempty"`
	// +listType=map
	// +listMapKey=name
	EphemeralContainers           []EphemeralContainer `json:"ephemeralContainers,omitempty"`
	RestartPolicy                 string               `json:"restartPolicy,omitempty"`
	TerminationGracePeriodSeconds *int64               `json:"terminationGracePeriodSeconds,omitempty"`
	ActiveDeadlineSeconds         *int64               `json:"activeDeadlineSeconds,omitempty"`
	DNSPolicy                     string               `json:"dnsPolicy,omitempty"`
	// +mapType=atomic
	NodeSelector                 map[string]string   `json:"nodeSelector,omitempty"`
	ServiceAccountName           string              `json:"serviceAccountName,omitempty"`
	DeprecatedServiceAccount     string              `json:"serviceAccount,omitempty"`
	AutomountServiceAccountToken *bool               `json:"automountServiceAccountToken,omitempty"`
	NodeName                     string              `json:"nodeName,omitempty"`
	HostNetwork                  bool                `json:"hostNetwork,omitempty"`
	HostPID                      bool                `json:"hostPID,omitempty"`
	HostIPC                      bool                `json:"hostIPC,omitempty"`
	ShareProcessNamespace        *bool               `json:"shareProcessNamespace,omitempty"`
	SecurityContext              *PodSecurityContext `json:"securityContext,omitempty"`
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []shared.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	Hostname         string                        `json:"hostname,omitempty"`
	Subdomain        string                        `json:"subdomain,omitempty"`
	Affinity         *Affinity                     `json:"affinity,omitempty"`
	SchedulerName    string                        `json:"schedulerName,omitempty"`
	// +listType=atomic
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// +listType=map
	// +listMapKey=ip
	HostAliases       []HostAlias   `json:"hostAliases,omitempty"`
	PriorityClassName string        `json:"priorityClassName,omitempty"`
	Priority          *int32        `json:"priority,omitempty"`
	DNSConfig         *PodDNSConfig `json:"dnsConfig,omitempty"`
	// +listType=atomic
	ReadinessGates     []PodReadinessGate      `json:"readinessGates,omitempty"`
	RuntimeClassName   *string                 `json:"runtimeClassName,omitempty"`
	EnableServiceLinks *bool                   `json:"enableServiceLinks,omitempty"`
	PreemptionPolicy   *string                 `json:"preemptionPolicy,omitempty"`
	Overhead           map[string]sdk.Quantity `json:"overhead,omitempty"`
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	TopologySpreadConstraints []TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	SetHostnameAsFQDN         *bool                      `json:"setHostnameAsFQDN,omitempty"`
	OS                        *PodOS                     `json:"os,omitempty"`
	HostUsers                 *bool                      `json:"hostUsers,omitempty"`
	// +listType=map
	// +listMapKey=name
	SchedulingGates []PodSchedulingGate `json:"schedulingGates,omitempty"`
	// +listType=map
	// +listMapKey=name
	ResourceClaims   []PodResourceClaim    `json:"resourceClaims,omitempty"`
	Resources        *ResourceRequirements `json:"resources,omitempty"`
	HostnameOverride *string               `json:"hostnameOverride,omitempty"`
	SchedulingGroup  *PodSchedulingGroup   `json:"schedulingGroup,omitempty"`
}

// Volume is that of the Kubernetes API.
type Volume struct {
	Name                  string                             `json:"name"`
	HostPath              *HostPathVolumeSource              `json:"hostPath,omitempty"`
	EmptyDir              *EmptyDirVolumeSource              `json:"emptyDir,omitempty"`
	GCEPersistentDisk     *GCEPersistentDiskVolumeSource     `json:"gcePersistentDisk,omitempty"`
	AWSElasticBlockStore  *AWSElasticBlockStoreVolumeSource  `json:"awsElasticBlockStore,omitempty"`
	GitRepo               *GitRepoVolumeSource               `json:"gitRepo,omitempty"`
	Secret                *SecretVolumeSource                `json:"secret,omitempty"`
	NFS                   *NFSVolumeSource                   `json:"nfs,omitempty"`
	ISCSI                 *ISCSIVolumeSource                 `json:"iscsi,omitempty"`
	Glusterfs             *GlusterfsVolumeSource             `json:"glusterfs,omitempty"`
	PersistentVolumeClaim *PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim,omitempty"`
	RBD                   *RBDVolumeSource                   `json:"rbd,omitempty"`
	FlexVolume            *FlexVolumeSource                  `json:"flexVolume,omitempty"`
	Cinder                *CinderVolumeSource                `json:"cinder,omitempty"`
	CephFS                *CephFSVolumeSource                `json:"cephfs,omitempty"`
	Flocker               *FlockerVolumeSource               `json:"flocker,omitempty"`
	DownwardAPI           *DownwardAPIVolumeSource           `json:"downwardAPI,omitempty"`
	FC                    *FCVolumeSource                    `json:"fc,omitempty"`
	AzureFile             *AzureFileVolumeSource             `json:"azureFile,omitempty"`
	ConfigMap             *ConfigMapVolumeSource             `json:"configMap,omitempty"`
	VsphereVolume         *VsphereVirtualDiskVolumeSource    `json:"vsphereVolume,omitempty"`
	Quobyte               *QuobyteVolumeSource               `json:"quobyte,omitempty"`
	AzureDisk             *AzureDiskVolumeSource             `json:"azureDisk,omitempty"`
	PhotonPersistentDisk  *PhotonPersistentDiskVolumeSource  `json:"photonPersistentDisk,omitempty"`
	Projected             *ProjectedVolumeSource             `json:"projected,omitempty"`
	PortworxVolume        *PortworxVolumeSource              `json:"portworxVolume,omitempty"`
	ScaleIO               *ScaleIOVolumeSource               `json:"scaleIO,omitempty"`
	StorageOS             *StorageOSVolumeSource             `json:"storageos,omitempty"`
	CSI                   *CSIVolumeSource                   `json:"csi,omitempty"`
	Ephemeral             *EphemeralVolumeSource             `json:"ephemeral,omitempty"`
	Image                 *ImageVolumeSource                 `json:"image,omitempty"`
}

// HostPathVolumeSource is that of the Kubernetes API.
type HostPathVolumeSource struct {
	Path string  `json:"path"`
	Type *string `json:"type,omitempty"`
}

// EmptyDirVolumeSource is that of the Kubernetes API.
type EmptyDirVolumeSource struct {
	Medium    string       `json:"medium,omitempty"`
	SizeLimit sdk.Quantity `json:"sizeLimit,omitempty"`
}

// GCEPersistentDiskVolumeSource is that of the Kubernetes API.
type GCEPersistentDiskVolumeSource struct {
	PDName    string `json:"pdName"`
	FSType    string `json:"fsType,omitempty"`
	Partition int32  `json:"partition,omitempty"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

// AWSElasticBlockStoreVolumeSource is that of the Kubernetes API.
type AWSElasticBlockStoreVolumeSource struct {
	VolumeID  string `json:"volumeID"`
	FSType    string `json:"fsType,omitempty"`
	Partition int32  `json:"partition,omitempty"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

// GitRepoVolumeSource is that of the Kubernetes API.
type GitRepoVolumeSource struct {
	Repository string `json:"repository"`
	Revision   string `json:"revision,omitempty"`
	Directory  string `json:"directory,omitempty"`
}

// SecretVolumeSource is that of the Kubernetes API.
type SecretVolumeSource struct {
	SecretName string `json:"secretName,omitempty"`
	// +listType=atomic
	Items       []KeyToPath `json:"items,omitempty"`
	DefaultMode *int32      `json:"defaultMode,omitempty"`
	Optional    *bool       `json:"optional,omitempty"`
}

// KeyToPath is that of the Kubernetes API.
type KeyToPath struct {
	Key  string `json:"key"`
	Path string `json:"path"`
	Mode *int32 `json:"mode,omitempty"`
}

// NFSVolumeSource is that of the Kubernetes API.
type NFSVolumeSource struct {
	Server   string `json:"server"`
	Path     string `json:"path"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// ISCSIVolumeSource is that of the Kubernetes API.
type ISCSIVolumeSource struct {
	TargetPortal string `json:"targetPortal"`
	IQN          string `json:"iqn"`
	Lun          int32  `json:"lun"`
	// +default="default"
	ISCSIInterface string `json:"iscsiInterface,omitempty"`
	FSType         string `json:"fsType,omitempty"`
	ReadOnly       bool   `json:"readOnly,omitempty"`
	// +listType=atomic
	Portals           []string                     `json:"portals,omitempty"`
	DiscoveryCHAPAuth bool                         `json:"chapAuthDiscovery,omitempty"`
	SessionCHAPAuth   bool                         `json:"chapAuthSession,omitempty"`
	SecretRef         *shared.LocalObjectReference `json:"secretRef,omitempty"`
	InitiatorName     *string                      `json:"initiatorName,omitempty"`
}

// GlusterfsVolumeSource is that of the Kubernetes API.
type GlusterfsVolumeSource struct {
	EndpointsName string `json:"endpoints"`
	Path          string `json:"path"`
	ReadOnly      bool   `json:"readOnly,omitempty"`
}

// PersistentVolumeClaimVolumeSource is that of the Kubernetes API.
type PersistentVolumeClaimVolumeSource struct {
	ClaimName string `json:"claimName"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

// RBDVolumeSource is that of the Kubernetes API.
type RBDVolumeSource struct {
	// +required
	// +listType=atomic
	CephMonitors []string `json:"monitors,omitempty"`
	RBDImage     string   `json:"image"`
	FSType       string   `json:"fsType,omitempty"`
	// +default="rbd"
	RBDPool string `json:"pool,omitempty"`
	// +default="admin"
	RadosUser string `json:"user,omitempty"`
	// +default="/etc/ceph/keyring"
	Keyring   string                       `json:"keyring,omitempty"`
	SecretRef *shared.LocalObjectReference `json:"secretRef,omitempty"`
	ReadOnly  bool                         `json:"readOnly,omitempty"`
}

// FlexVolumeSource is that of the Kubernetes API.
type FlexVolumeSource struct {
	Driver    string                       `json:"driver"`
	FSType    string                       `json:"fsType,omitempty"`
	SecretRef *shared.LocalObjectReference `json:"secretRef,omitempty"`
	ReadOnly  bool                         `json:"readOnly,omitempty"`
	Options   map[string]string            `json:"options,omitempty"`
}

// CinderVolumeSource is that of the Kubernetes API.
type CinderVolumeSource struct {
	VolumeID  string                       `json:"volumeID"`
	FSType    string                       `json:"fsType,omitempty"`
	ReadOnly  bool                         `json:"readOnly,omitempty"`
	SecretRef *shared.LocalObjectReference `json:"secretRef,omitempty"`
}

// CephFSVolumeSource is that of the Kubernetes API.
type CephFSVolumeSource struct {
	// +required
	// +listType=atomic
	Monitors   []string                     `json:"monitors,omitempty"`
	Path       string                       `json:"path,omitempty"`
	User       string                       `json:"user,omitempty"`
	SecretFile string                       `json:"secretFile,omitempty"`
	SecretRef  *shared.LocalObjectReference `json:"secretRef,omitempty"`
	ReadOnly   bool                         `json:"readOnly,omitempty"`
}

// FlockerVolumeSource is that of the Kubernetes API.
type FlockerVolumeSource struct {
	DatasetName string `json:"datasetName,omitempty"`
	DatasetUUID string `json:"datasetUUID,omitempty"`
}

// DownwardAPIVolumeSource is that of the Kubernetes API.
type DownwardAPIVolumeSource struct {
	// +listType=atomic
	Items       []DownwardAPIVolumeFile `json:"items,omitempty"`
	DefaultMode *int32                  `json:"defaultMode,omitempty"`
}

// DownwardAPIVolumeFile is that of the Kubernetes API.
type DownwardAPIVolumeFile struct {
	Path             string                 `json:"path"`
	FieldRef         *ObjectFieldSelector   `json:"fieldRef,omitempty"`
	ResourceFieldRef *ResourceFieldSelector `json:"resourceFieldRef,omitempty"`
	Mode             *int32                 `json:"mode,omitempty"`
}

// ObjectFieldSelector is that of the Kubernetes API.
// +structType=atomic
type ObjectFieldSelector struct {
	APIVersion string `json:"apiVersion,omitempty"`
	FieldPath  string `json:"fieldPath"`
}

// ResourceFieldSelector is that of the Kubernetes API.
// +structType=atomic
type ResourceFieldSelector struct {
	ContainerName string       `json:"containerName,omitempty"`
	Resource      string       `json:"resource"`
	Divisor       sdk.Quantity `json:"divisor,omitempty"`
}

// FCVolumeSource is that of the Kubernetes API.
type FCVolumeSource struct {
	// +listType=atomic
	TargetWWNs []string `json:"targetWWNs,omitempty"`
	Lun        *int32   `json:"lun,omitempty"`
	FSType     string   `json:"fsType,omitempty"`
	ReadOnly   bool     `json:"readOnly,omitempty"`
	// +listType=atomic
	WWIDs []string `json:"wwids,omitempty"`
}

// AzureFileVolumeSource is that of the Kubernetes API.
type AzureFileVolumeSource struct {
	SecretName string `json:"secretName"`
	ShareName  string `json:"shareName"`
	ReadOnly   bool   `json:"readOnly,omitempty"`
}

// ConfigMapVolumeSource is that of the Kubernetes API.
type ConfigMapVolumeSource struct {
	// +default=""
	Name string `json:"name,omitempty"`
	// +listType=atomic
	Items       []KeyToPath `json:"items,omitempty"`
	DefaultMode *int32      `json:"defaultMode,omitempty"`
	Optional    *bool       `json:"optional,omitempty"`
}

// VsphereVirtualDiskVolumeSource is that of the Kubernetes API.
type VsphereVirtualDiskVolumeSource struct {
	VolumePath        string `json:"volumePath"`
	FSType            string `json:"fsType,omitempty"`
	StoragePolicyName string `json:"storagePolicyName,omitempty"`
	StoragePolicyID   string `json:"storagePolicyID,omitempty"`
}

// QuobyteVolumeSource is that of the Kubernetes API.
type QuobyteVolumeSource struct {
	Registry string `json:"registry"`
	Volume   string `json:"volume"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	User     string `json:"user,omitempty"`
	Group    string `json:"group,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
}

// AzureDiskVolumeSource is that of the Kubernetes API.
type AzureDiskVolumeSource struct {
	DiskName    string `json:"diskName"`
	DataDiskURI string `json:"diskURI"`
	// +default="ReadWrite"
	CachingMode *string `json:"cachingMode,omitempty"`
	// +default="ext4"
	FSType *string `json:"fsType,omitempty"`
	// +default=false
	ReadOnly *bool `json:"readOnly,omitempty"`
	// +default="Shared"
	Kind *string `json:"kind,omitempty"`
}

// PhotonPersistentDiskVolumeSource is that of the Kubernetes API.
type PhotonPersistentDiskVolumeSource struct {
	PdID   string `json:"pdID"`
	FSType string `json:"fsType,omitempty"`
}

// ProjectedVolumeSource is that of the Kubernetes API.
type ProjectedVolumeSource struct {
	// +listType=atomic
	Sources     []VolumeProjection `json:"sources,omitempty"`
	DefaultMode *int32             `json:"defaultMode,omitempty"`
}

// VolumeProjection is that of the Kubernetes API.
type VolumeProjection struct {
	Secret              *SecretProjection              `json:"secret,omitempty"`
	DownwardAPI         *DownwardAPIProjection         `json:"downwardAPI,omitempty"`
	ConfigMap           *ConfigMapProjection           `json:"configMap,omitempty"`
	ServiceAccountToken *ServiceAccountTokenProjection `json:"serviceAccountToken,omitempty"`
	ClusterTrustBundle  *ClusterTrustBundleProjection  `json:"clusterTrustBundle,omitempty"`
	PodCertificate      *PodCertificateProjection      `json:"podCertificate,omitempty"`
}

// SecretProjection is that of the Kubernetes API.
type SecretProjection struct {
	// +default=""
	Name string `json:"name,omitempty"`
	// +listType=atomic
	Items    []KeyToPath `json:"items,omitempty"`
	Optional *bool       `json:"optional,omitempty"`
}

// DownwardAPIProjection is that of the Kubernetes API.
type DownwardAPIProjection struct {
	// +listType=atomic
	Items []DownwardAPIVolumeFile `json:"items,omitempty"`
}

// ConfigMapProjection is that of the Kubernetes API.
type ConfigMapProjection struct {
	// +default=""
	Name string `json:"name,omitempty"`
	// +listType=atomic
	Items    []KeyToPath `json:"items,omitempty"`
	Optional *bool       `json:"optional,omitempty"`
}

// ServiceAccountTokenProjection is that of the Kubernetes API.
type ServiceAccountTokenProjection struct {
	Audience          string `json:"audience,omitempty"`
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
	Path              string `json:"path"`
}

// ClusterTrustBundleProjection is that of the Kubernetes API.
type ClusterTrustBundleProjection struct {
	Name          *string            `json:"name,omitempty"`
	SignerName    *string            `json:"signerName,omitempty"`
	LabelSelector *sdk.LabelSelector `json:"labelSelector,omitempty"`
	Optional      *bool              `json:"optional,omitempty"`
	Path          string             `json:"path"`
}

// PodCertificateProjection is that of the Kubernetes API.
type PodCertificateProjection struct {
	// +required
	SignerName string `json:"signerName,omitempty"`
	// +required
	KeyType              string            `json:"keyType,omitempty"`
	MaxExpirationSeconds *int32            `json:"maxExpirationSeconds,omitempty"`
	CredentialBundlePath string            `json:"credentialBundlePath,omitempty"`
	KeyPath              string            `json:"keyPath,omitempty"`
	CertificateChainPath string            `json:"certificateChainPath,omitempty"`
	UserAnnotations      map[string]string `json:"userAnnotations,omitempty"`
}

// PortworxVolumeSource is that of the Kubernetes API.
type PortworxVolumeSource struct {
	VolumeID string `json:"volumeID"`
	FSType   string `json:"fsType,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// ScaleIOVolumeSource is that of the Kubernetes API.
type ScaleIOVolumeSource struct {
	Gateway string `json:"gateway"`
	System  string `json:"system"`
	// +required
	SecretRef        *shared.LocalObjectReference `json:"secretRef,omitempty"`
	SSLEnabled       bool                         `json:"sslEnabled,omitempty"`
	ProtectionDomain string                       `json:"protectionDomain,omitempty"`
	StoragePool      string                       `json:"storagePool,omitempty"`
	// +default="ThinProvisioned"
	StorageMode string `json:"storageMode,omitempty"`
	VolumeName  string `json:"volumeName,omitempty"`
	// +default="xfs"
	FSType   string `json:"fsType,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// StorageOSVolumeSource is that of the Kubernetes API.
type StorageOSVolumeSource struct {
	VolumeName      string                       `json:"volumeName,omitempty"`
	VolumeNamespace string                       `json:"volumeNamespace,omitempty"`
	FSType          string                       `json:"fsType,omitempty"`
	ReadOnly        bool                         `json:"readOnly,omitempty"`
	SecretRef       *shared.LocalObjectReference `json:"secretRef,omitempty"`
}

// CSIVolumeSource is that of the Kubernetes API.
type CSIVolumeSource struct {
	Driver               string                       `json:"driver"`
	ReadOnly             *bool                        `json:"readOnly,omitempty"`
	FSType               *string                      `json:"fsType,omitempty"`
	VolumeAttributes     map[string]string            `json:"volumeAttributes,omitempty"`
	NodePublishSecretRef *shared.LocalObjectReference `json:"nodePublishSecretRef,omitempty"`
}

// EphemeralVolumeSource is that of the Kubernetes API.
type EphemeralVolumeSource struct {
	VolumeClaimTemplate *persistentvolumeclaim.Template `json:"volumeClaimTemplate,omitempty"`
}

// ImageVolumeSource is that of the Kubernetes API.
type ImageVolumeSource struct {
	Reference  string `json:"reference,omitempty"`
	PullPolicy string `json:"pullPolicy,omitempty"`
}

// Container is that of the Kubernetes API.
type Container struct {
	Name  string `json:"name"`
	Image string `json:"image,omitempty"`
	// +listType=atomic
	Command []string `json:"command,omitempty"`
	// +listType=atomic
	Args       []string `json:"args,omitempty"`
	WorkingDir string   `json:"workingDir,omitempty"`
	// +listType=map
	// +listMapKey=containerPort
	// +listMapKey=protocol
	Ports []ContainerPort `json:"ports,omitempty"`
	// +listType=atomic
	EnvFrom []EnvFromSource `json:"envFrom,omitempty"`
	// +listType=map
	// +listMapKey=name
	Env       []EnvVar             `json:"env,omitempty"`
	Resources ResourceRequirements `json:"resources,omitzero"`
	// +listType=atomic
	ResizePolicy  []ContainerResizePolicy `json:"resizePolicy,omitempty"`
	RestartPolicy *string                 `json:"restartPolicy,omitempty"`
	// +listType=atomic
	RestartPolicyRules []ContainerRestartRule `json:"restartPolicyRules,omitempty"`
	// +listType=map
	// +listMapKey=mountPath
	VolumeMounts []VolumeMount `json:"volumeMounts,omitempty"`
	// +listType=map
	// +listMapKey=devicePath
	VolumeDevices            []VolumeDevice   `json:"volumeDevices,omitempty"`
	LivenessProbe            *Probe           `json:"livenessProbe,omitempty"`
	ReadinessProbe           *Probe           `json:"readinessProbe,omitempty"`
	StartupProbe             *Probe           `json:"startupProbe,omitempty"`
	Lifecycle                *Lifecycle       `json:"lifecycle,omitempty"`
	TerminationMessagePath   string           `json:"terminationMessagePath,omitempty"`
	TerminationMessagePolicy string           `json:"terminationMessagePolicy,omitempty"`
	ImagePullPolicy          string           `json:"imagePullPolicy,omitempty"`
	SecurityContext          *SecurityContext `json:"securityContext,omitempty"`
	Stdin                    bool             `json:"stdin,omitempty"`
	StdinOnce                bool             `json:"stdinOnce,omitempty"`
	TTY                      bool             `json:"tty,omitempty"`
}

// ContainerPort is that of the Kubernetes API.
type ContainerPort struct {
	Name          string `json:"name,omitempty"`
	HostPort      int32  `json:"hostPort,omitempty"`
	ContainerPort int32  `json:"containerPort"`
	// +default="TCP"
	Protocol string `json:"protocol,omitempty"`
	HostIP   string `json:"hostIP,omitempty"`
}

// EnvFromSource is that of the Kubernetes API.
type EnvFromSource struct {
	Prefix       string              `json:"prefix,omitempty"`
	ConfigMapRef *ConfigMapEnvSource `json:"configMapRef,omitempty"`
	SecretRef    *SecretEnvSource    `json:"secretRef,omitempty"`
}

// ConfigMapEnvSource is that of the Kubernetes API.
type ConfigMapEnvSource struct {
	// +default=""
	Name     string `json:"name,omitempty"`
	Optional *bool  `json:"optional,omitempty"`
}

// SecretEnvSource is that of the Kubernetes API.
type SecretEnvSource struct {
	// +default=""
	Name     string `json:"name,omitempty"`
	Optional *bool  `json:"optional,omitempty"`
}

// EnvVar is that of the Kubernetes API.
type EnvVar struct {
	Name      string        `json:"name"`
	Value     string        `json:"value,omitempty"`
	ValueFrom *EnvVarSource `json:"valueFrom,omitempty"`
}

// EnvVarSource is that of the Kubernetes API.
type EnvVarSource struct {
	FieldRef         *ObjectFieldSelector   `json:"fieldRef,omitempty"`
	ResourceFieldRef *ResourceFieldSelector `json:"resourceFieldRef,omitempty"`
	ConfigMapKeyRef  *ConfigMapKeySelector  `json:"configMapKeyRef,omitempty"`
	SecretKeyRef     *SecretKeySelector     `json:"secretKeyRef,omitempty"`
	FileKeyRef       *FileKeySelector       `json:"fileKeyRef,omitempty"`
}

// ConfigMapKeySelector is that of the Kubernetes API.
// +structType=atomic
type ConfigMapKeySelector struct {
	// +default=""
	Name     string `json:"name,omitempty"`
	Key      string `json:"key"`
	Optional *bool  `json:"optional,omitempty"`
}

// SecretKeySelector is that of the Kubernetes API.
// +structType=atomic
type SecretKeySelector struct {
	// +default=""
	Name     string `json:"name,omitempty"`
	Key      string `json:"key"`
	Optional *bool  `json:"optional,omitempty"`
}

// FileKeySelector is that of the Kubernetes API.
// +structType=atomic
type FileKeySelector struct {
	VolumeName string `json:"volumeName"`
	Path       string `json:"path"`
	Key        string `json:"key"`
	// +default=false
	Optional *bool `json:"optional,omitempty"`
}

// ResourceRequirements is that of the Kubernetes API.
type ResourceRequirements struct {
	Limits   map[string]sdk.Quantity `json:"limits,omitempty"`
	Requests map[string]sdk.Quantity `json:"requests,omitempty"`
	// +listType=map
	// +listMapKey=name
	Claims []ResourceClaim `json:"claims,omitempty"`
}

// ResourceClaim is that of the Kubernetes API.
type ResourceClaim struct {
	Name    string `json:"name"`
	Request string `json:"request,omitempty"`
}

// ContainerResizePolicy is that of the Kubernetes API.
type ContainerResizePolicy struct {
	ResourceName  string `json:"resourceName"`
	RestartPolicy string `json:"restartPolicy"`
}

// ContainerRestartRule is that of the Kubernetes API.
type ContainerRestartRule struct {
	// +required
	Action    string                           `json:"action,omitempty"`
	ExitCodes *ContainerRestartRuleOnExitCodes `json:"exitCodes,omitempty"`
}

// ContainerRestartRuleOnExitCodes is that of the Kubernetes API.
type ContainerRestartRuleOnExitCodes struct {
	// +required
	Operator string `json:"operator,omitempty"`
	// +listType=set
	Values []int32 `json:"values,omitempty"`
}

// VolumeMount is that of the Kubernetes API.
type VolumeMount struct {
	Name              string  `json:"name"`
	ReadOnly          bool    `json:"readOnly,omitempty"`
	RecursiveReadOnly *string `json:"recursiveReadOnly,omitempty"`
	MountPath         string  `json:"mountPath"`
	SubPath           string  `json:"subPath,omitempty"`
	MountPropagation  *string `json:"mountPropagation,omitempty"`
	SubPathExpr       string  `json:"subPathExpr,omitempty"`
}

// VolumeDevice is that of the Kubernetes API.
type VolumeDevice struct {
	Name       string `json:"name"`
	DevicePath string `json:"devicePath"`
}

// Probe is that of the Kubernetes API.
type Probe struct {
	Exec                          *ExecAction      `json:"exec,omitempty"`
	HTTPGet                       *HTTPGetAction   `json:"httpGet,omitempty"`
	TCPSocket                     *TCPSocketAction `json:"tcpSocket,omitempty"`
	GRPC                          *GRPCAction      `json:"grpc,omitempty"`
	InitialDelaySeconds           int32            `json:"initialDelaySeconds,omitempty"`
	TimeoutSeconds                int32            `json:"timeoutSeconds,omitempty"`
	PeriodSeconds                 int32            `json:"periodSeconds,omitempty"`
	SuccessThreshold              int32            `json:"successThreshold,omitempty"`
	FailureThreshold              int32            `json:"failureThreshold,omitempty"`
	TerminationGracePeriodSeconds *int64           `json:"terminationGracePeriodSeconds,omitempty"`
}

// ExecAction is that of the Kubernetes API.
type ExecAction struct {
	// +listType=atomic
	Command []string `json:"command,omitempty"`
}

// HTTPGetAction is that of the Kubernetes API.
type HTTPGetAction struct {
	Path   string          `json:"path,omitempty"`
	Port   sdk.IntOrString `json:"port"`
	Host   string          `json:"host,omitempty"`
	Scheme string          `json:"scheme,omitempty"`
	// +listType=atomic
	HTTPHeaders []HTTPHeader `json:"httpHeaders,omitempty"`
}

// HTTPHeader is that of the Kubernetes API.
type HTTPHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// TCPSocketAction is that of the Kubernetes API.
type TCPSocketAction struct {
	Port sdk.IntOrString `json:"port"`
	Host string          `json:"host,omitempty"`
}

// GRPCAction is that of the Kubernetes API.
type GRPCAction struct {
	Port    int32   `json:"port"`
	Service *string `json:"service,omitempty"`
}

// Lifecycle is that of the Kubernetes API.
type Lifecycle struct {
	PostStart  *LifecycleHandler `json:"postStart,omitempty"`
	PreStop    *LifecycleHandler `json:"preStop,omitempty"`
	StopSignal *string           `json:"stopSignal,omitempty"`
}

// LifecycleHandler is that of the Kubernetes API.
type LifecycleHandler struct {
	Exec      *ExecAction      `json:"exec,omitempty"`
	HTTPGet   *HTTPGetAction   `json:"httpGet,omitempty"`
	TCPSocket *TCPSocketAction `json:"tcpSocket,omitempty"`
	Sleep     *SleepAction     `json:"sleep,omitempty"`
}

// SleepAction is that of the Kubernetes API.
type SleepAction struct {
	Seconds int64 `json:"seconds"`
}

// SecurityContext is that of the Kubernetes API.
type SecurityContext struct {
	Capabilities             *Capabilities                  `json:"capabilities,omitempty"`
	Privileged               *bool                          `json:"privileged,omitempty"`
	SELinuxOptions           *SELinuxOptions                `json:"seLinuxOptions,omitempty"`
	WindowsOptions           *WindowsSecurityContextOptions `json:"windowsOptions,omitempty"`
	RunAsUser                *int64                         `json:"runAsUser,omitempty"`
	RunAsGroup               *int64                         `json:"runAsGroup,omitempty"`
	RunAsNonRoot             *bool                          `json:"runAsNonRoot,omitempty"`
	ReadOnlyRootFilesystem   *bool                          `json:"readOnlyRootFilesystem,omitempty"`
	AllowPrivilegeEscalation *bool                          `json:"allowPrivilegeEscalation,omitempty"`
	ProcMount                *string                        `json:"procMount,omitempty"`
	SeccompProfile           *SeccompProfile                `json:"seccompProfile,omitempty"`
	AppArmorProfile          *AppArmorProfile               `json:"appArmorProfile,omitempty"`
}

// Capabilities is that of the Kubernetes API.
type Capabilities struct {
	// +listType=atomic
	Add []string `json:"add,omitempty"`
	// +listType=atomic
	Drop []string `json:"drop,omitempty"`
}

// SELinuxOptions is that of the Kubernetes API.
type SELinuxOptions struct {
	User  string `json:"user,omitempty"`
	Role  string `json:"role,omitempty"`
	Type  string `json:"type,omitempty"`
	Level string `json:"level,omitempty"`
}

// WindowsSecurityContextOptions is that of the Kubernetes API.
type WindowsSecurityContextOptions struct {
	GMSACredentialSpecName *string `json:"gmsaCredentialSpecName,omitempty"`
	GMSACredentialSpec     *string `json:"gmsaCredentialSpec,omitempty"`
	RunAsUserName          *string `json:"runAsUserName,omitempty"`
	HostProcess            *bool   `json:"hostProcess,omitempty"`
}

// SeccompProfile is that of the Kubernetes API.
type SeccompProfile struct {
	Type             string  `json:"type"`
	LocalhostProfile *string `json:"localhostProfile,omitempty"`
}

// AppArmorProfile is that of the Kubernetes API.
type AppArmorProfile struct {
	Type             string  `json:"type"`
	LocalhostProfile *string `json:"localhostProfile,omitempty"`
}

// EphemeralContainer is that of the Kubernetes API.
type EphemeralContainer struct {
	Name  string `json:"name"`
	Image string `json:"image,omitempty"`
	// +listType=atomic
	Command []string `json:"command,omitempty"`
	// +listType=atomic
	Args       []string `json:"args,omitempty"`
	WorkingDir string   `json:"workingDir,omitempty"`
	// +listType=map
	// +listMapKey=containerPort
	// +listMapKey=protocol
	Ports []ContainerPort `json:"ports,omitempty"`
	// +listType=atomic
	EnvFrom []EnvFromSource `json:"envFrom,omitempty"`
	// +listType=map
	// +listMapKey=name
	Env       []EnvVar             `json:"env,omitempty"`
	Resources ResourceRequirements `json:"resources,omitzero"`
	// +listType=atomic
	ResizePolicy  []ContainerResizePolicy `json:"resizePolicy,omitempty"`
	RestartPolicy *string                 `json:"restartPolicy,omitempty"`
	// +listType=atomic
	RestartPolicyRules []ContainerRestartRule `json:"restartPolicyRules,omitempty"`
	// +listType=map
	// +listMapKey=mountPath
	VolumeMounts []VolumeMount `json:"volumeMounts,omitempty"`
	// +listType=map
	// +listMapKey=devicePath
	VolumeDevices            []VolumeDevice   `json:"volumeDevices,omitempty"`
	LivenessProbe            *Probe           `json:"livenessProbe,omitempty"`
	ReadinessProbe           *Probe           `json:"readinessProbe,omitempty"`
	StartupProbe             *Probe           `json:"startupProbe,omitempty"`
	Lifecycle                *Lifecycle       `json:"lifecycle,omitempty"`
	TerminationMessagePath   string           `json:"terminationMessagePath,omitempty"`
	TerminationMessagePolicy string           `json:"terminationMessagePolicy,omitempty"`
	ImagePullPolicy          string           `json:"imagePullPolicy,omitempty"`
	SecurityContext          *SecurityContext `json:"securityContext,omitempty"`
	Stdin                    bool             `json:"stdin,omitempty"`
	StdinOnce                bool             `json:"stdinOnce,omitempty"`
	TTY                      bool             `json:"tty,omitempty"`
	TargetContainerName      string           `json:"targetContainerName,omitempty"`
}

// PodSecurityContext is that of the Kubernetes API.
type PodSecurityContext struct {
	SELinuxOptions *SELinuxOptions                `json:"seLinuxOptions,omitempty"`
	WindowsOptions *WindowsSecurityContextOptions `json:"windowsOptions,omitempty"`
	RunAsUser      *int64                         `json:"runAsUser,omitempty"`
	RunAsGroup     *int64                         `json:"runAsGroup,omitempty"`
	RunAsNonRoot   *bool                          `json:"runAsNonRoot,omitempty"`
	// +listType=atomic
	SupplementalGroups       []int64 `json:"supplementalGroups,omitempty"`
	SupplementalGroupsPolicy *string `json:"supplementalGroupsPolicy,omitempty"`
	FSGroup                  *int64  `json:"fsGroup,omitempty"`
	// +listType=atomic
	Sysctls             []Sysctl         `json:"sysctls,omitempty"`
	FSGroupChangePolicy *string          `json:"fsGroupChangePolicy,omitempty"`
	SeccompProfile      *SeccompProfile  `json:"seccompProfile,omitempty"`
	AppArmorProfile     *AppArmorProfile `json:"appArmorProfile,omitempty"`
	SELinuxChangePolicy *string          `json:"seLinuxChangePolicy,omitempty"`
}

// Sysctl is that of the Kubernetes API.
type Sysctl struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Affinity is that of the Kubernetes API.
type Affinity struct {
	NodeAffinity    *NodeAffinity    `json:"nodeAffinity,omitempty"`
	PodAffinity     *PodAffinity     `json:"podAffinity,omitempty"`
	PodAntiAffinity *PodAntiAffinity `json:"podAntiAffinity,omitempty"`
}

// NodeAffinity is that of the Kubernetes API.
type NodeAffinity struct {
	RequiredDuringSchedulingIgnoredDuringExecution *NodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	// +listType=atomic
	PreferredDuringSchedulingIgnoredDuringExecution []PreferredSchedulingTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeSelector is that of the Kubernetes API.
// +structType=atomic
type NodeSelector struct {
	// +required
	// +listType=atomic
	NodeSelectorTerms []NodeSelectorTerm `json:"nodeSelectorTerms,omitempty"`
}

// NodeSelectorTerm is that of the Kubernetes API.
// +structType=atomic
type NodeSelectorTerm struct {
	// +listType=atomic
	MatchExpressions []NodeSelectorRequirement `json:"matchExpressions,omitempty"`
	// +listType=atomic
	MatchFields []NodeSelectorRequirement `json:"matchFields,omitempty"`
}

// NodeSelectorRequirement is that of the Kubernetes API.
type NodeSelectorRequirement struct {
	Key      string `json:"key"`
	Operator string `json:"operator"`
	// +listType=atomic
	Values []string `json:"values,omitempty"`
}

// PreferredSchedulingTerm is that of the Kubernetes API.
type PreferredSchedulingTerm struct {
	Weight     int32            `json:"weight"`
	Preference NodeSelectorTerm `json:"preference"`
}

// PodAffinity is that of the Kubernetes API.
type PodAffinity struct {
	// +listType=atomic
	RequiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	// +listType=atomic
	PreferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// PodAffinityTerm is that of the Kubernetes API.
type PodAffinityTerm struct {
	LabelSelector *sdk.LabelSelector `json:"labelSelector,omitempty"`
	// +listType=atomic
	Namespaces        []string           `json:"namespaces,omitempty"`
	TopologyKey       string             `json:"topologyKey"`
	NamespaceSelector *sdk.LabelSelector `json:"namespaceSelector,omitempty"`
	// +listType=atomic
	MatchLabelKeys []string `json:"matchLabelKeys,omitempty"`
	// +listType=atomic
	MismatchLabelKeys []string `json:"mismatchLabelKeys,omitempty"`
}

// WeightedPodAffinityTerm is that of the Kubernetes API.
type WeightedPodAffinityTerm struct {
	Weight          int32           `json:"weight"`
	PodAffinityTerm PodAffinityTerm `json:"podAffinityTerm"`
}

// PodAntiAffinity is that of the Kubernetes API.
type PodAntiAffinity struct {
	// +listType=atomic
	RequiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	// +listType=atomic
	PreferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// Toleration is that of the Kubernetes API.
type Toleration struct {
	Key               string `json:"key,omitempty"`
	Operator          string `json:"operator,omitempty"`
	Value             string `json:"value,omitempty"`
	Effect            string `json:"effect,omitempty"`
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// HostAlias is that of the Kubernetes API.
type HostAlias struct {
	IP string `json:"ip"`
	// +listType=atomic
	Hostnames []string `json:"hostnames,omitempty"`
}

// PodDNSConfig is that of the Kubernetes API.
type PodDNSConfig struct {
	// +listType=atomic
	Nameservers []string `json:"nameservers,omitempty"`
	// +listType=atomic
	Searches []string `json:"searches,omitempty"`
	// +listType=atomic
	Options []PodDNSConfigOption `json:"options,omitempty"`
}

// PodDNSConfigOption is that of the Kubernetes API.
type PodDNSConfigOption struct {
	Name  string  `json:"name,omitempty"`
	Value *string `json:"value,omitempty"`
}

// PodReadinessGate is that of the Kubernetes API.
type PodReadinessGate struct {
	ConditionType string `json:"conditionType"`
}

// TopologySpreadConstraint is that of the Kubernetes API.
type TopologySpreadConstraint struct {
	MaxSkew            int32              `json:"maxSkew"`
	TopologyKey        string             `json:"topologyKey"`
	WhenUnsatisfiable  string             `json:"whenUnsatisfiable"`
	LabelSelector      *sdk.LabelSelector `json:"labelSelector,omitempty"`
	MinDomains         *int32             `json:"minDomains,omitempty"`
	NodeAffinityPolicy *string            `json:"nodeAffinityPolicy,omitempty"`
	NodeTaintsPolicy   *string            `json:"nodeTaintsPolicy,omitempty"`
	// +listType=atomic
	MatchLabelKeys []string `json:"matchLabelKeys,omitempty"`
}

// PodOS is that of the Kubernetes API.
type PodOS struct {
	Name string `json:"name"`
}

// PodSchedulingGate is that of the Kubernetes API.
type PodSchedulingGate struct {
	Name string `json:"name"`
}

// PodResourceClaim is that of the Kubernetes API.
type PodResourceClaim struct {
	Name                      string  `json:"name"`
	ResourceClaimName         *string `json:"resourceClaimName,omitempty"`
	ResourceClaimTemplateName *string `json:"resourceClaimTemplateName,omitempty"`
}

// PodSchedulingGroup is that of the Kubernetes API.
type PodSchedulingGroup struct {
	PodGroupName *string `json:"podGroupName,omitempty"`
}

// Status is PodStatus of the Kubernetes API.
type Status struct {
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Phase              string `json:"phase,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions        []Condition `json:"conditions,omitempty"`
	Message           string      `json:"message,omitempty"`
	Reason            string      `json:"reason,omitempty"`
	NominatedNodeName string      `json:"nominatedNodeName,omitempty"`
	HostIP            string      `json:"hostIP,omitempty"`
	// +listType=atomic
	HostIPs []HostIP `json:"hostIPs,omitempty"`
	PodIP   string   `json:"podIP,omitempty"`
	// +listType=map
	// +listMapKey=ip
	PodIPs    []PodIP  `json:"podIPs,omitempty"`
	StartTime sdk.Time `json:"startTime,omitempty"`
	// +listType=atomic
	InitContainerStatuses []ContainerStatus `json:"initContainerStatuses,omitempty"`
	// +listType=atomic
	ContainerStatuses []ContainerStatus `json:"containerStatuses,omitempty"`
	QOSClass          string            `json:"qosClass,omitempty"`
	// +listType=atomic
	EphemeralContainerStatuses []ContainerStatus `json:"ephemeralContainerStatuses,omitempty"`
	Resize                     string            `json:"resize,omitempty"`
	// +listType=map
	// +listMapKey=name
	ResourceClaimStatuses       []PodResourceClaimStatus        `json:"resourceClaimStatuses,omitempty"`
	ExtendedResourceClaimStatus *PodExtendedResourceClaimStatus `json:"extendedResourceClaimStatus,omitempty"`
	AllocatedResources          map[string]sdk.Quantity         `json:"allocatedResources,omitempty"`
	Resources                   *ResourceRequirements           `json:"resources,omitempty"`
	// +listType=atomic
	NodeAllocatableResourceClaimStatuses []NodeAllocatableResourceClaimStatus `json:"nodeAllocatableResourceClaimStatuses,omitempty"`
}

// Condition is PodCondition of the Kubernetes API.
type Condition struct {
	Type               string   `json:"type"`
	ObservedGeneration int64    `json:"observedGeneration,omitempty"`
	Status             string   `json:"status"`
	LastProbeTime      sdk.Time `json:"lastProbeTime,omitempty"`
	LastTransitionTime sdk.Time `json:"lastTransitionTime,omitempty"`
	Reason             string   `json:"reason,omitempty"`
	Message            string   `json:"message,omitempty"`
}

// HostIP is that of the Kubernetes API.
type HostIP struct {
	IP string `json:"ip"`
}

// PodIP is that of the Kubernetes API.
type PodIP struct {
	IP string `json:"ip"`
}

// ContainerStatus is that of the Kubernetes API.
type ContainerStatus struct {
	Name                 string                  `json:"name"`
	State                ContainerState          `json:"state,omitzero"`
	LastTerminationState ContainerState          `json:"lastState,omitzero"`
	Ready                bool                    `json:"ready"`
	RestartCount         int32                   `json:"restartCount"`
	Image                string                  `json:"image"`
	ImageID              string                  `json:"imageID"`
	ContainerID          string                  `json:"containerID,omitempty"`
	Started              *bool                   `json:"started,omitempty"`
	AllocatedResources   map[string]sdk.Quantity `json:"allocatedResources,omitempty"`
	Resources            *ResourceRequirements   `json:"resources,omitempty"`
	// +listType=map
	// +listMapKey=mountPath
	VolumeMounts []VolumeMountStatus `json:"volumeMounts,omitempty"`
	User         *ContainerUser      `json:"user,omitempty"`
	// +listType=map
	// +listMapKey=name
	AllocatedResourcesStatus []ResourceStatus `json:"allocatedResourcesStatus,omitempty"`
	StopSignal               *string          `json:"stopSignal,omitempty"`
}

// ContainerState is that of the Kubernetes API.
type ContainerState struct {
	Waiting    *ContainerStateWaiting    `json:"waiting,omitempty"`
	Running    *ContainerStateRunning    `json:"running,omitempty"`
	Terminated *ContainerStateTerminated `json:"terminated,omitempty"`
}

// ContainerStateWaiting is that of the Kubernetes API.
type ContainerStateWaiting struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// ContainerStateRunning is that of the Kubernetes API.
type ContainerStateRunning struct {
	StartedAt sdk.Time `json:"startedAt,omitempty"`
}

// ContainerStateTerminated is that of the Kubernetes API.
type ContainerStateTerminated struct {
	ExitCode    int32    `json:"exitCode"`
	Signal      int32    `json:"signal,omitempty"`
	Reason      string   `json:"reason,omitempty"`
	Message     string   `json:"message,omitempty"`
	StartedAt   sdk.Time `json:"startedAt,omitempty"`
	FinishedAt  sdk.Time `json:"finishedAt,omitempty"`
	ContainerID string   `json:"containerID,omitempty"`
}

// VolumeMountStatus is that of the Kubernetes API.
type VolumeMountStatus struct {
	Name              string        `json:"name"`
	MountPath         string        `json:"mountPath"`
	ReadOnly          bool          `json:"readOnly,omitempty"`
	RecursiveReadOnly *string       `json:"recursiveReadOnly,omitempty"`
	VolumeStatus      *VolumeStatus `json:"volumeStatus,omitempty"`
}

// VolumeStatus is that of the Kubernetes API.
type VolumeStatus struct {
	Image *ImageVolumeStatus `json:"image,omitempty"`
}

// ImageVolumeStatus is that of the Kubernetes API.
type ImageVolumeStatus struct {
	// +required
	ImageRef string `json:"imageRef,omitempty"`
}

// ContainerUser is that of the Kubernetes API.
type ContainerUser struct {
	Linux *LinuxContainerUser `json:"linux,omitempty"`
}

// LinuxContainerUser is that of the Kubernetes API.
type LinuxContainerUser struct {
	UID int64 `json:"uid"`
	GID int64 `json:"gid"`
	// +listType=atomic
	SupplementalGroups []int64 `json:"supplementalGroups,omitempty"`
}

// ResourceStatus is that of the Kubernetes API.
type ResourceStatus struct {
	Name string `json:"name"`
	// +listType=map
	// +listMapKey=resourceID
	Resources []ResourceHealth `json:"resources,omitempty"`
}

// ResourceHealth is that of the Kubernetes API.
type ResourceHealth struct {
	ResourceID string  `json:"resourceID"`
	Health     string  `json:"health,omitempty"`
	Message    *string `json:"message,omitempty"`
}

// PodResourceClaimStatus is that of the Kubernetes API.
type PodResourceClaimStatus struct {
	Name              string  `json:"name"`
	ResourceClaimName *string `json:"resourceClaimName,omitempty"`
}

// PodExtendedResourceClaimStatus is that of the Kubernetes API.
type PodExtendedResourceClaimStatus struct {
	// +required
	// +listType=atomic
	RequestMappings   []ContainerExtendedResourceRequest `json:"requestMappings,omitempty"`
	ResourceClaimName string                             `json:"resourceClaimName"`
}

// ContainerExtendedResourceRequest is that of the Kubernetes API.
type ContainerExtendedResourceRequest struct {
	ContainerName string `json:"containerName"`
	ResourceName  string `json:"resourceName"`
	RequestName   string `json:"requestName"`
}

// NodeAllocatableResourceClaimStatus is that of the Kubernetes API.
type NodeAllocatableResourceClaimStatus struct {
	ResourceClaimName string `json:"resourceClaimName"`
	// +listType=set
	Containers []string `json:"containers,omitempty"`
	// +required
	Resources map[string]sdk.Quantity `json:"resources,omitempty"`
}

// TemplateSpec is PodTemplateSpec of the Kubernetes API.
//
//thole:compact
type TemplateSpec struct {
	Metadata sdk.ObjectMeta `json:"metadata,omitzero"`
	Spec     Spec           `json:"spec,omitzero"`
}
