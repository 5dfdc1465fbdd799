{{/* The release's name of everything that is its own. */}}
{{- define "operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if .Values.nameOverride -}}
{{- $name := include "operator.text" .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
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

{{/* The address of the pages, without a slash at its end: that of the values, or else the folder of the repository. */}}
{{- define "operator.docs" -}}
{{- (include "operator.values" . | fromYaml).metrics.prometheusRule.docsURL | default "docs" | trimSuffix "/" -}}
{{- end -}}

{{/* The name of what is cluster-scoped. */}}
{{- define "operator.clusterName" -}}
{{- if or .Values.fullnameOverride .Values.nameOverride -}}
{{- include "operator.fullname" . -}}
{{- else -}}
tailscale-operator
{{- end -}}
{{- end -}}

{{/* An image of a values' map (repository or its old name repo, tag, digest), a default repository and a default tag. */}}
{{- define "operator.image" -}}
{{- $repository := .image.repo | default .image.repository | default "" | trim | default .own -}}
{{- $image := printf "%s:%s" $repository (.image.tag | default "" | trim | default .tag) -}}
{{- with .image.digest -}}
{{- $image = printf "%s@%s" $repository . -}}
{{- end -}}
{{- if regexMatch "[[:space:]]" $image -}}
{{- fail (printf "%q is not the name of an image: remove the blanks in it" $image) -}}
{{- end -}}
{{- $image -}}
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
{{- $theirs := or (contains "tailscale/k8s-operator" ($image.repo | default $image.repository | default "")) (regexMatch "^(v1[.]|stable$|unstable)" $tag) -}}
{{- if and $theirs (eq $repository .own) -}}
{{- $image = dict -}}
{{- else if regexMatch "^(unstable-)?v1[.][0-9]{2,}[.]" $tag -}}
{{- $image = omit $image "tag" -}}
{{- end -}}
{{- include "operator.image" (dict "image" (merge (dict "repo" $repository) $image) "own" .own "tag" .tag) -}}
{{- end -}}

{{/* A value that is text, and may have been given as a number: 1, and not 1e+06 or %!s(float64=1). */}}
{{- define "operator.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}
{{- printf "%.0f" . -}}
{{- else if not (kindIs "invalid" .) -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{/* In a map, makes text of some values: a list of the map and of the paths, where "*" means all. A path that isn't there stays so. */}}
{{- define "operator.makeText" -}}
{{- $map := first . -}}
{{- range $path := rest . -}}
{{- $name := first $path -}}
{{- $deeper := rest $path -}}
{{- range $key := ternary (keys $map) (list $name) (eq $name "*") -}}
{{- $value := get $map $key -}}
{{- if and $deeper (kindIs "map" $value) -}}
{{- include "operator.makeText" (list $value $deeper) -}}
{{- else if and $deeper (kindIs "slice" $value) -}}
{{- range $value -}}{{- include "operator.makeText" (list . $deeper) -}}{{- end -}}
{{- else if and (not $deeper) (kindIs "slice" $value) -}}
{{- $texts := list -}}
{{- range $value -}}{{- $texts = append $texts (include "operator.text" .) -}}{{- end -}}
{{- $_ := set $map $key $texts -}}
{{- else if and (not $deeper) (hasKey $map $key) -}}
{{- $_ := set $map $key (include "operator.text" $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
All values, as YAML: what is text is a string, however it was given.

After an upgrade from the Go operator's chart with --reuse-values, the values are those of its values.yaml. That lacks ours,
and the older it is, the more it lacks. What is missing is then as in our values.yaml. But podDisruptionBudget and
ingressClass.enabled may be missing because they were set to null: then topologySpread is there, which nobody has a reason
to set to null.
*/}}
{{- define "operator.values" -}}
{{- $config := dict "logFormat" "json" "replicas" 2 "topologySpread" true "zones" (list) "manageClusterDNS" false "clusterDNSConfigMap" "" "takeOverNames" false "defaultLoadBalancer" false "watchNamespaces" (list) "nameserverImage" (dict) "image" (dict) -}}
{{- $metrics := dict "service" true "serviceMonitor" (dict "enabled" false "labels" (dict) "interval" "30s") "prometheusRule" (dict "enabled" false "labels" (dict)) "dashboard" (dict "enabled" false) -}}
{{- $class := dict "name" "tailscale" -}}
{{- if not (hasKey (.Values.operatorConfig | default dict) "topologySpread") -}}
{{- $_ := set $config "podDisruptionBudget" (dict "maxUnavailable" 1) -}}
{{- $_ := set $class "enabled" true -}}
{{- end -}}
{{- $ours := dict "operatorConfig" $config "dns" (dict "enabled" false) "metrics" $metrics "oauth" (dict) "ingressClass" $class "proxyConfig" (dict "image" (dict) "k8sProxyImage" (dict)) "apiServerProxyConfig" (dict) -}}
{{- $values := mergeOverwrite $ours (deepCopy .Values) -}}
{{- range $path := include "operator.textPaths" . | fromYamlArray -}}
{{- include "operator.makeText" (list $values (splitList "." $path)) -}}
{{- end -}}
{{- $values | toYaml -}}
{{- end -}}

{{/* Which values are text. */}}
{{- define "operator.textPaths" -}}
- nameOverride
- oauth.*
- loginServer
- annotations.*
- operatorConfig.defaultTags
- operatorConfig.image.*
- operatorConfig.logging
- operatorConfig.hostname
- operatorConfig.watchNamespaces
- operatorConfig.nameserverImage.*
- operatorConfig.annotations.*
- operatorConfig.podAnnotations.*
- operatorConfig.podLabels.*
- operatorConfig.serviceAccountAnnotations.*
- operatorConfig.nodeSelector.*
- operatorConfig.priorityClassName
- operatorConfig.extraEnv.value
- operatorConfig.caBundleConfigMap
- operatorConfig.clusterDNSConfigMap
- operatorConfig.sharedACMEAccountKey
- metrics.serviceMonitor.labels.*
- metrics.serviceMonitor.interval
- metrics.prometheusRule.labels.*
- metrics.dashboard.namespace
- metrics.dashboard.labels.*
- metrics.dashboard.annotations.*
- ingressClass.name
- proxyConfig.image.*
- proxyConfig.k8sProxyImage.*
- proxyConfig.defaultTags
- proxyConfig.firewallMode
- proxyConfig.defaultProxyClass
- proxyConfig.caBundle
- apiServerProxyConfig.*
- imagePullSecrets.name
{{- end -}}

{{/*
Whether the operator may write into the configuration of the cluster's DNS: "true", or nothing. While there is a DNSConfig that
the operator has made for dns.enabled, it may, so that it can take its stub domain out when the value is taken back. The next
upgrade takes these rights away.
*/}}
{{- define "operator.managesClusterDNS" -}}
{{- $values := include "operator.values" . | fromYaml -}}
{{- if or $values.operatorConfig.manageClusterDNS (include "operator.makesDNSConfig" .) -}}true{{- end -}}
{{- end -}}

{{/* Whether the operator makes a DNSConfig, or has made one, which it then deletes when dns.enabled is taken back: "true", or nothing. */}}
{{- define "operator.makesDNSConfig" -}}
{{- if (include "operator.values" . | fromYaml).dns.enabled -}}
true
{{- else if .Capabilities.APIVersions.Has "tailscale.com/v1alpha1/DNSConfig" -}}
{{- $made := lookup "tailscale.com/v1alpha1" "DNSConfig" "" "ts-dns" -}}
{{- if dig "metadata" "labels" "tailscale.com/managed" "" $made -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* An image of ours, where this chart has its images from. */}}
{{- define "operator.own" -}}
{{- $root := first . -}}
{{- list $root.Chart.Annotations.images (last .) | compact | join "/" -}}
{{- end -}}

{{/* The image that the operator's Pods run. */}}
{{- define "operator.operatorImage" -}}
{{- include "operator.ownImage" (dict "image" (include "operator.values" . | fromYaml).operatorConfig.image "own" (include "operator.own" (list . "tsoperator")) "tag" .Chart.AppVersion) -}}
{{- end -}}

{{/* The image of nameservers. */}}
{{- define "operator.nameserverImage" -}}
{{- include "operator.image" (dict "image" (include "operator.values" . | fromYaml).operatorConfig.nameserverImage "own" (include "operator.own" (list . "tsnameserver")) "tag" .Chart.AppVersion) -}}
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
{{- $wanted := (include "operator.values" . | fromYaml).operatorConfig.replicas -}}
{{- if $ours -}}{{ $wanted }}{{- else -}}{{ dig "spec" "replicas" 0 $live | default $wanted }}{{- end -}}
{{- end -}}

{{/* Labels of everything that can be named apart, besides Helm's. */}}
{{- define "operator.labels" -}}
app.kubernetes.io/name: tailscale-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}
