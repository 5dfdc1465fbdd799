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
*/}}
{{- define "operator.ownImage" -}}
{{- $image := .image -}}
{{- if contains "tailscale/k8s-operator" ($image.repo | default $image.repository) -}}
{{- $image = dict "repository" .own -}}
{{- end -}}
{{- include "operator.image" (dict "image" $image "tag" .tag) -}}
{{- end -}}

{{/*
The values of operatorConfig, as YAML. After an upgrade from the Go operator's chart with --reuse-values ours are not
there: they are those of values.yaml then.
*/}}
{{- define "operator.config" -}}
{{- $nameserver := dict "repository" "tsnameserver" -}}
{{- $ours := dict "replicas" 2 "topologySpread" true "zones" (list "ts.net") "takeOverNames" false "defaultLoadBalancer" false "nameserverImage" $nameserver -}}
{{- mergeOverwrite $ours (deepCopy .Values.operatorConfig) | toYaml -}}
{{- end -}}

{{/* Labels of everything that can be named apart, besides Helm's. */}}
{{- define "operator.labels" -}}
app.kubernetes.io/name: tailscale-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}
