{{- define "thole.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- $name = .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- $name = .Release.Name -}}
{{- else -}}
{{- $name = printf "%s-%s" .Release.Name $name -}}
{{- end -}}
{{- $name = $name | trunc 50 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "fullnameOverride: the objects would be called %s, which is no name for a Service: name them here, by a letter and then letters, digits and '-'" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "thole.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | toYaml }}
app.kubernetes.io/instance: {{ toYaml .Release.Name }}
{{- end -}}

{{- define "thole.labels" -}}
{{ include "thole.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "thole.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "thole.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: name the account that is there, or let the chart create one by serviceAccount.create" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* What the host is called for others, as subject of a binding. */ -}}
{{- define "thole.subject" -}}
- kind: ServiceAccount
  name: {{ include "thole.serviceAccountName" . | toYaml }}
  namespace: {{ toYaml .Release.Namespace }}
{{- end -}}

{{- define "thole.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "thole.secure" -}}
{{- if and .Values.metrics.secure (not .Values.rbac.clusterRoles) -}}
{{- fail "metrics.secure: callers can only be reviewed with a ClusterRole: set metrics.secure: false beside rbac.clusterRoles: false, and let a NetworkPolicy decide who reaches the port" -}}
{{- end -}}
{{- if and (not .Values.rbac.clusterRoles) (not .Values.watchNamespaces) -}}
{{- fail "watchNamespaces: without ClusterRoles the host can only work in namespaces that are named here" -}}
{{- end -}}
{{- if and .Values.webhooks.enabled (not .Values.rbac.clusterRoles) -}}
{{- fail "webhooks.enabled: webhook configurations have no namespace, and the rights to them are in a ClusterRole: set rbac.clusterRoles" -}}
{{- end -}}
{{- if ne .Values.metrics.secure (dig "metrics" "secure" .Values.metrics.secure .Values.config) -}}
{{- fail "config.metrics.secure: set metrics.secure, which probes and Services follow" -}}
{{- end -}}
{{- if .Values.metrics.secure }}true{{ end -}}
{{- end -}}

{{- /* What may not be among the extra arguments, since manifests depend on it, by the value that sets it. */ -}}
{{- define "thole.extraArgs" -}}
{{- $set := dict "config" "config" "plugins" "plugins" "listen" "metrics.port" "metrics-secure" "metrics.secure" "webhooks-listen" "webhooks" "leader-elect" "replicaCount" "host-identity" "hostIdentity" "profiling" "profiling" "log-level" "logLevel" "log-format" "logFormat" -}}
{{- range .Values.extraArgs -}}
{{- with get $set (regexFind "^--[^=]*" . | trimPrefix "--") -}}
{{- fail (printf "extraArgs: what %s sets is not set by an argument" .) -}}
{{- end -}}
{{- end -}}
{{- toYaml .Values.extraArgs -}}
{{- end -}}

{{- /* The name and the namespace of the account of a plugin: dict root, plugin, item. */ -}}
{{- define "thole.pluginAccountNamespace" -}}
{{- default .root.Release.Namespace (dig "serviceAccount" "namespace" "" .item) -}}
{{- end -}}
{{- define "thole.pluginAccountName" -}}
{{- default (printf "%s-%s" (include "thole.fullname" .root) .plugin) (dig "serviceAccount" "name" "" .item) -}}
{{- end -}}

{{- /* The policies of the plugins, by name: dict. */ -}}
{{- define "thole.policies" -}}
{{- $policies := dict -}}
{{- range $plugin, $item := .Values.plugins.items -}}
{{- $policy := merge (dict "apiVersion" "thole.dev/v1alpha1") (default dict $item.policy) -}}
{{- if $item.serviceAccount -}}
{{- $args := dict "root" $ "plugin" $plugin "item" $item -}}
{{- $_ := set $policy "serviceAccount" (printf "%s/%s" (include "thole.pluginAccountNamespace" $args) (include "thole.pluginAccountName" $args)) -}}
{{- end -}}
{{- $_ := set $policies $plugin $policy -}}
{{- end -}}
{{- toYaml $policies -}}
{{- end -}}

{{- /* The configuration of the host, without values.config. */ -}}
{{- define "thole.config" -}}
cacheDir: /cache/thole
cacheMiB: {{ .Values.cache.sizeMiB }}
limits: {memoryMiB: 64}
metrics:
  secure: {{ eq (include "thole.secure" .) "true" }}
  service: {{ include "thole.fullname" . | toYaml }}
  secret: {{ include "thole.fullname" . }}-metrics
leaderElection:
  resourceName: {{ include "thole.fullname" . | toYaml }}
{{- if .Values.webhooks.enabled }}
webhooks:
  listen: ":{{ .Values.webhooks.port }}"
  service: {name: {{ include "thole.fullname" . }}-webhook}
  secret: {name: {{ include "thole.fullname" . }}-webhook}
{{- end }}
{{- $policies := fromYaml (include "thole.policies" .) }}
{{- if and $policies (not .Values.plugins.configMaps) }}
policies:
  {{- toYaml $policies | nindent 2 }}
{{- end }}
{{- if or .Values.watchNamespaces $policies }}
allow:
  {{- with .Values.watchNamespaces }}
  namespaces:
    "*": {{ toJson . }}
  {{- end }}
  {{- /* Who writes the values allows what the policies in them have. */}}
  {{- $accounts := dict }}{{ $entries := dict }}{{ $http := dict }}{{ $webhooks := list }}
  {{- range $plugin, $policy := $policies }}
  {{- with $policy.serviceAccount }}{{ $_ := set $accounts $plugin (list .) }}{{ end }}
  {{- with $policy.allow }}{{ $_ := set $entries $plugin . }}{{ end }}
  {{- with ($policy.http).hosts }}{{ $_ := set $http $plugin . }}{{ end }}
  {{- if hasKey $policy "webhooks" }}{{ $webhooks = append $webhooks $plugin }}{{ end }}
  {{- end }}
  {{- with $accounts }}
  serviceAccounts: {{ toJson . }}
  {{- end }}
  {{- with $entries }}
  entries: {{ toJson . }}
  {{- end }}
  {{- with $http }}
  http: {{ toJson . }}
  {{- end }}
  {{- with $webhooks }}
  webhooks: {{ toJson . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "thole.portName" -}}
{{- if .Values.metrics.secure }}https{{ else }}http{{ end -}}
{{- end -}}

{{- /* A probe: dict root, path. */ -}}
{{- define "thole.probe" -}}
path: {{ .path }}
port: {{ include "thole.portName" .root }}
{{- if .root.Values.metrics.secure }}
scheme: HTTPS
{{- end }}
{{- end -}}

{{- /* Where the modules come from. */ -}}
{{- define "thole.pluginVolume" -}}
{{- $p := .Values.plugins -}}
{{- $sources := 0 -}}
{{- range list $p.configMaps $p.existingClaim $p.image.reference -}}{{- if . -}}{{- $sources = add1 $sources -}}{{- end -}}{{- end -}}
{{- if gt (int $sources) 1 -}}
{{- fail "plugins: name one of configMaps, existingClaim and image.reference" -}}
{{- end -}}
{{- if $p.image.reference -}}
image:
  reference: {{ toYaml $p.image.reference }}
  pullPolicy: {{ $p.image.pullPolicy }}
{{- else if $p.existingClaim -}}
persistentVolumeClaim:
  claimName: {{ toYaml $p.existingClaim }}
  readOnly: true
{{- else if $p.configMaps -}}
projected:
  sources:
    {{- range $p.configMaps }}
    # A host without plugins is a host all the same, and takes up the first one
    # when it comes.
    - configMap:
        name: {{ toYaml . }}
        optional: true
    {{- end }}
    {{- if fromYaml (include "thole.policies" .) }}
    - configMap:
        name: {{ include "thole.fullname" . }}-policies
    {{- end }}
{{- else -}}
emptyDir: {}
{{- end -}}
{{- end -}}

{{- /* A role and its binding for the host: dict root, name, rules; and namespaces, or the
whole cluster without. */ -}}
{{- define "thole.hostRole" -}}
{{- $ctx := . -}}
{{- if .namespaces -}}
{{- range .namespaces }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $ctx.name }}
  namespace: {{ toYaml . }}
  labels:
    {{- include "thole.labels" $ctx.root | nindent 4 }}
rules:
  {{- $ctx.rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $ctx.name }}
  namespace: {{ toYaml . }}
  labels:
    {{- include "thole.labels" $ctx.root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $ctx.name }}
subjects:
  {{- default (include "thole.subject" $ctx.root) $ctx.subject | nindent 2 }}
{{- end }}
{{- else }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $ctx.name }}
  labels:
    {{- include "thole.labels" $ctx.root | nindent 4 }}
rules:
  {{- $ctx.rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $ctx.name }}
  labels:
    {{- include "thole.labels" $ctx.root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $ctx.name }}
subjects:
  {{- default (include "thole.subject" $ctx.root) $ctx.subject | nindent 2 }}
{{- end }}
{{- end -}}
