// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package cronjob has the kind batch/v1 CronJob.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package cronjob

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/job"
	"github.com/thole-dev/thole/sdk/kubernetes/shared"
)

// Kind is batch/v1 CronJob.
var Kind = sdk.Kind{APIVersion: "batch/v1", Kind: "CronJob"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) CronJob {
	return CronJob{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// CronJob is that of the Kubernetes API.
//
//thole:compact
type CronJob struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	// +required
	Spec   Spec   `json:"spec,omitzero"`
	Status Status `json:"status,omitzero"`
}

// Spec is CronJobSpec of the Kubernetes API.
type Spec struct {
	Schedule                   string           `json:"schedule"`
	TimeZone                   *string          `json:"timeZone,omitempty"`
	StartingDeadlineSeconds    *int64           `json:"startingDeadlineSeconds,omitempty"`
	ConcurrencyPolicy          string           `json:"concurrencyPolicy,omitempty"`
	Suspend                    *bool            `json:"suspend,omitempty"`
	JobTemplate                job.TemplateSpec `json:"jobTemplate"`
	SuccessfulJobsHistoryLimit *int32           `json:"successfulJobsHistoryLimit,omitempty"`
	FailedJobsHistoryLimit     *int32           `json:"failedJobsHistoryLimit,omitempty"`
}

// Status is CronJobStatus of the Kubernetes API.
type Status struct {
	// +listType=atomic
	Active             []shared.ObjectReference `json:"active,omitempty"`
	LastScheduleTime   sdk.Time                 `json:"lastScheduleTime,omitempty"`
	LastSuccessfulTime sdk.Time                 `json:"lastSuccessfulTime,omitempty"`
}
