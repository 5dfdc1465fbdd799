{{/* The release's name of everything that is its own. */}}
{{- define "operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if .Values.nameOverride -}}
{{- if contains .Values.nameOverride .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- else -}}
operator
{{- end -}}
{{- end -}}

{{/* The name of a part of the release that has no fixed one: a list of the scope and the part. It suits a Service. */}}
{{- define "operator.part" -}}
{{- $part := last . -}}
{{- printf "%s-%s" (include "operator.fullname" (first .) | trunc (sub 62 (len $part) | int) | trimSuffix "-") $part -}}
{{- end -}}

{{/* The name of what is cluster-scoped. */}}
{{- define "operator.clusterName" -}}
{{- if or .Values.fullnameOverride .Values.nameOverride -}}
{{- include "operator.fullname" . -}}
{{- else -}}
tailscale-operator
{{- end -}}
{{- end -}}

{{/* An image of a values' map (repository or its old name repo, tag, digest) and a default tag. */}}
{{- define "operator.image" -}}
{{- $repository := .image.repo | default .image.repository -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.image.tag | default .tag) -}}
{{- end -}}
{{- end -}}

{{/*
The operator's image: where values name the Go operator's, as those do that were written for its chart, it is ours that runs.
They may name its version alone (v1.102.5, stable, unstable), or beside a repository of one's own, which has no such version
of ours. There stable and unstable may be tags of one's own.
*/}}
{{- define "operator.ownImage" -}}
{{- $image := .image -}}
{{- $repository := .own -}}
{{- range list $image.repository $image.repo -}}
{{- if and . (not (contains "tailscale/k8s-operator" .)) -}}{{- $repository = . -}}{{- end -}}
{{- end -}}
{{- $tag := toString $image.tag -}}
{{- $theirs := or (contains "tailscale/k8s-operator" ($image.repo | default $image.repository)) (regexMatch "^(v1[.]|stable$|unstable)" $tag) -}}
{{- if and $theirs (eq $repository .own) -}}
{{- $image = dict -}}
{{- else if regexMatch "^(unstable-)?v1[.][0-9]{2,}[.]" $tag -}}
{{- $image = omit $image "tag" -}}
{{- end -}}
{{- include "operator.image" (dict "image" (merge (dict "repo" $repository) $image) "tag" .tag) -}}
{{- end -}}

{{/*
The values of operatorConfig, as YAML. After an upgrade from the Go operator's chart with --reuse-values ours are not
there: they are those of values.yaml then. podDisruptionBudget may be away because it was set to null, too: then topologySpread
is there, which nobody has a reason to set to null.
*/}}
{{- define "operator.config" -}}
{{- $nameserver := dict "repository" "tsnameserver" -}}
{{- $ours := dict "logFormat" "text" "replicas" 2 "topologySpread" true "zones" (list "ts.net") "takeOverNames" false "defaultLoadBalancer" false "watchNamespaces" (list) "nameserverImage" $nameserver -}}
{{- if not (hasKey .Values.operatorConfig "topologySpread") -}}
{{- $_ := set $ours "podDisruptionBudget" (dict "maxUnavailable" 1) -}}
{{- end -}}
{{- mergeOverwrite $ours (deepCopy .Values.operatorConfig) | toYaml -}}
{{- end -}}

{{/* The values of metrics likewise. */}}
{{- define "operator.metrics" -}}
{{- $ours := dict "service" true "serviceMonitor" (dict "enabled" false "labels" (dict) "interval" "30s") "dashboard" (dict "enabled" false) -}}
{{- mergeOverwrite $ours (deepCopy (.Values.metrics | default dict)) | toYaml -}}
{{- end -}}

{{/* A container's securityContext: the values' own, and for what they leave out ours. */}}
{{- define "operator.securityContext" -}}
{{- $seccomp := dict "type" "RuntimeDefault" -}}
{{- $ours := dict "allowPrivilegeEscalation" false "capabilities" (dict "drop" (list "ALL")) "readOnlyRootFilesystem" true "runAsNonRoot" true "seccompProfile" $seccomp -}}
{{- merge (dict) (. | default dict) $ours | toYaml -}}
{{- end -}}

{{/* A container's resources. */}}
{{- define "operator.resources" -}}
{{- . | default (dict "requests" (dict "cpu" "10m" "memory" "96Mi")) | toYaml -}}
{{- end -}}

{{/*
How many Pods. The Deployment of the Go operator keeps its one: told of another number and another template at once,
Kubernetes first starts more of the old Pods, and two of that operator get in each other's way. The next upgrade gives
the number that the values say.
*/}}
{{- define "operator.replicas" -}}
{{- $live := lookup "apps/v1" "Deployment" .Release.Namespace (include "operator.fullname" .) -}}
{{- $ours := eq "tsoperator" (dig "spec" "template" "metadata" "labels" "tailscale.com/operator" "" $live) -}}
{{- $wanted := (include "operator.config" . | fromYaml).replicas -}}
{{- if $ours -}}{{ $wanted }}{{- else -}}{{ dig "spec" "replicas" 0 $live | default $wanted }}{{- end -}}
{{- end -}}

{{/* Labels of everything that can be named apart, besides Helm's. */}}
{{- define "operator.labels" -}}
app.kubernetes.io/name: tailscale-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}
